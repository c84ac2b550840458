#include "attend/serve/model_api.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "io/printable.h"
#include "serve/model_api_state.h"

namespace attend {
namespace {

struct Route {
  const char* path;
  const char* method;
  void (*answer)(RouteContext&, const HttpRequest&, Responder&);
};

constexpr Route kRoutes[] = {
    {"/v1/models", "GET", answer_models},
    {"/v1/chat/completions", "POST", answer_chat},
    {"/v1/completions", "POST", answer_completions},
    {"/v1/embeddings", "POST", answer_embeddings},
    {"/translate", "POST", answer_translate},
    {"/languages", "GET", answer_languages},
    {"/classify", "POST", answer_classify},
    {"/tokenize", "POST", answer_tokenize},
    {"/detokenize", "POST", answer_detokenize},
    {"/health", "GET", answer_health},
    {"/metrics", "GET", answer_metrics},
};

/// The route of a path; null if there is none.
const Route* find_route(std::string_view path) {
  constexpr std::string_view kModel = "/v1/models/";
  const auto found = std::ranges::find_if(kRoutes, [&](const Route& route) {
    return path == route.path || (route.answer == answer_models && path.starts_with(kModel));
  });
  return found == std::end(kRoutes) ? nullptr : found;
}

const Route& route_of(const HttpRequest& request) {
  const Route* found = find_route(request.path);
  if (found == nullptr) throw RequestError(404, "no such path: " + in_quotes(request.path));
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  if (method != found->method) {
    throw RequestError(405, request.path + " takes " + found->method + ", not " + in_quotes(request.method));
  }
  return *found;
}

Vocabulary vocabulary_of(const ServedModel& served) {
  if (!served.tokenizer) return {};
  return Vocabulary::of(*served.tokenizer, served.model->vocab_size(), served.rules);
}

/// The job of a request waits for its turn with those of the same key, or else of the same address.
std::string client_of(const HttpRequest& request, const std::string& user) {
  const std::string_view key = request.header("authorization");
  return (key.empty() ? request.client : std::string(key)) + "/" + user;
}

}  // namespace

std::string route_name(std::string_view path) {
  const Route* route = find_route(path);
  return route == nullptr ? "other" : route->path;
}

std::string methods_of(std::string_view path) {
  const Route* route = find_route(path);
  const std::string_view method = route == nullptr ? "" : route->method;
  return method == "GET" ? "GET, HEAD" : method == "POST" ? "POST" : "GET, HEAD, POST";
}

ModelEntry::ModelEntry(ServedModel served, const ModelApiOptions& options, ModelMetrics& figures)
    : own(std::move(served)),
      metrics(figures),
      vocabulary(vocabulary_of(own)),
      created(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      tokens_in_flight(options.tokens_in_flight),
      cache_bytes(options.cache_bytes),
      constraints(own.tokenizer ? std::make_unique<ConstraintCache>(*own.tokenizer) : nullptr),
      scheduler(own, options, metrics) {}

ModelApi::State::State(std::vector<ServedModel> models, const ModelApiOptions& options) : context{.options = options} {
  for (ServedModel& model : models) {
    ModelMetrics& figures = context.metrics.of(model.name);
    context.models.push_back(std::make_shared<ModelEntry>(std::move(model), options, figures));
  }
}

ModelApi::ModelApi(std::vector<ServedModel> models, const ModelApiOptions& options)
    : state_(std::make_unique<State>(std::move(models), options)) {}

ModelApi::~ModelApi() { stop(); }

void ModelApi::State::answer(const HttpRequest& request, Responder responder) {
  const auto fail = [&](const RequestError& error) {
    if (!responder.is_valid()) return;
    if (error.status == 405) responder.add_header("Allow", methods_of(request.path));
    responder.send(error_response(request.path, error));
  };
  try {
    route_of(request).answer(context, request, responder);
  } catch (const RequestError& error) {
    fail(error);
  } catch (const std::bad_alloc&) {
    fail({503, "out of memory for this request"});
  } catch (const std::exception& error) {
    fail({400, error.what()});
  }
}

void ModelApi::State::handle(HttpRequest request, Responder responder) {
  const auto shared = std::make_shared<std::pair<HttpRequest, Responder>>(std::move(request), std::move(responder));
  pool.add([this, shared] { answer(shared->first, std::move(shared->second)); });
}

void ModelApi::stop() {
  state_->pool.stop();
  for (const auto& model : state_->context.models) model->scheduler.stop();
}

std::shared_ptr<ModelEntry> RouteContext::model(RequestFields& fields) const {
  const auto name = fields.text("model");
  if (!name && models.size() == 1) return models[0];
  if (!name) fields.fail("model", "is missing");
  const auto found = std::ranges::find(models, *name, [](const auto& model) { return model->own.name; });
  if (found == models.end()) {
    throw RequestError(404, "there is no model " + in_quotes(*name), "model", "model_not_found");
  }
  return *found;
}

void submit(RouteContext& context, GenerationTask::Parts parts, const HttpRequest& request, Responder& responder) {
  parts.version = context.options.version;
  const std::shared_ptr<ModelEntry> model = parts.model;
  const std::string user = parts.settings.user;
  const auto task = std::make_shared<GenerationTask>(std::move(parts), std::move(responder));
  try {
    add_job(*model, request, user, task->job());
  } catch (const RequestError& error) {
    task->fail(error);
  }
}

void add_job(ModelEntry& model, const HttpRequest& request, const std::string& user, Job job) {
  job.client = client_of(request, user);
  if (!model.scheduler.add(std::move(job))) {
    throw RequestError(429, "too many requests are waiting for the model; try again later", {}, "queue_full");
  }
}

RequestError error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& known) {
    return known;
  } catch (const FormatError& known) {  // a text that is not UTF-8, for example
    return {400, known.what()};
  } catch (const std::exception& other) {
    return {500, other.what()};
  }
}

}  // namespace attend
