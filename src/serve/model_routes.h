#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/generation_task.h"
#include "serve/http/message.h"
#include "serve/http/responder.h"
#include "serve/metrics.h"
#include "serve/model_entry.h"
#include "serve/request_fields.h"

// The handlers of ModelApi, one for each path. They run in a pool of threads. Each sends a response, hands the
// responder over to a job, or throws RequestError.
namespace attend {

struct RouteContext {
  ModelApiOptions options;
  Metrics metrics{};
  std::vector<std::shared_ptr<ModelEntry>> models{};

  /// The model that the field "model" names. It may be omitted if only one model is served.
  std::shared_ptr<ModelEntry> model(RequestFields& fields) const;
};

void answer_chat(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_completions(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_embeddings(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_translate(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_languages(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_classify(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_tokenize(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_detokenize(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_models(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_health(RouteContext& context, const HttpRequest& request, Responder& responder);
void answer_metrics(RouteContext& context, const HttpRequest& request, Responder& responder);

/// The path of the route that answers a path, for metrics: "other" if there is none.
std::string route_name(std::string_view path);
/// The methods that a path takes, for the header Allow.
std::string methods_of(std::string_view path);

/// Runs a generating request.
void submit(RouteContext& context, GenerationTask::Parts parts, const HttpRequest& request, Responder& responder);
/// Adds a job for a request. Throws RequestError with status 429 if the queue is full.
void add_job(ModelEntry& model, const HttpRequest& request, const std::string& user, Job job);
/// The response to an exception of a job.
RequestError error_of(const std::exception_ptr& error);

}  // namespace attend
