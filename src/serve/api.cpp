#include "attend/serve/api.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "attend/inspect/effects.h"
#include "attend/inspect/embeddings.h"
#include "inspect/json.h"
#include "inspect/logits.h"
#include "inspect/plane_json.h"
#include "io/printable.h"
#include "serve/fields.h"
#include "serve/page.h"
#include "serve/picture_store.h"
#include "serve/run_store.h"
#include "serve/tool_routes.h"
#include "serve/turnstile.h"

namespace attend {
namespace {

constexpr size_t kLongestText = 1 << 20, kLongestName = 1024;  // bytes
constexpr std::string_view kRuns = "/api/runs/", kModels = "/api/models/", kTools = "/api/tools/";

ApiResponse json_response(const Json& json) { return {.body = json_text(json)}; }

ApiResponse error_response(int status, std::string message) {
  std::ranges::replace(message, '\n', ' ');
  ApiResponse response = json_response({{"error", message}});
  response.status = status;
  return response;
}

ApiResponse array_response(const Array& array) {
  ApiResponse response{.type = "application/octet-stream"};
  const auto bytes = std::as_bytes(std::span(array.values));
  response.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string shape;
  for (const int64_t dim : array.shape) shape.append(shape.empty() ? "" : ",").append(std::to_string(dim));
  response.headers["X-Shape"] = shape;
  return response;
}

void require_method(const ApiRequest& request, const char* method) {
  if (request.method != method) {
    throw ApiError(405, request.path + " takes " + method + ", not " + in_quotes(request.method));
  }
}

Json stored_json(const StoredRun& stored) {
  Json json{{"id", stored.id}, {"model", stored.model}};
  json.update(run_json(*stored.run));
  return json;
}

std::string query_text(const Query& query, const char* name, const std::string& otherwise) {
  const auto found = query.find(name);
  return found == query.end() ? otherwise : found->second;
}

}  // namespace

struct Api::State {
  State(std::vector<InspectedModel> all, ApiOptions given)
      : models(std::move(all)),
        options(std::move(given)),
        runs(options.most_runs, options.most_run_bytes),
        turnstile(options.most_waiting),
        figures(options.most_figures),
        sweeps(options.most_waiting),
        decoding(options.most_waiting) {
    for (size_t i = 0; i < models.size(); ++i) models[i].id = std::string("m").append(std::to_string(i));
  }

  ApiResponse answer(const ApiRequest& request) {
    if (request.path == "/" || request.path.starts_with("/view")) return page_response(request, options.page, policy);
    if (request.path == "/favicon.ico") return {.status = 204};
    if (request.path == "/api/info") return info(request);
    if (request.path == "/api/runs") return new_run(request);
    if (request.path == "/api/effects") return effects(request);
    if (request.path == "/api/pictures") return new_picture(request);
    if (request.path.starts_with(kRuns)) return of_run(request, std::string_view(request.path).substr(kRuns.size()));
    if (request.path.starts_with(kModels)) {
      return of_model(request, std::string_view(request.path).substr(kModels.size()));
    }
    if (request.path == "/api/generate") return generation(request);
    if (request.path.starts_with(kTools)) return tool(request, request.path.substr(kTools.size()));
    if (request.path == "/api/training") return training(request);
    if (request.path == "/api/training/events") return training_events(request);
    if (request.path == "/api/training/sentence") return training_sentence(request);
    throw ApiError(404, "no such path: " + in_quotes(request.path));
  }

  InspectedModel model(const std::string& id) {
    const std::lock_guard lock(models_mutex);
    const auto found = std::ranges::find(models, id, &InspectedModel::id);
    if (found == models.end()) throw ApiError(404, "there is no model " + in_quotes(id));
    return *found;
  }

  /// The training of a model; null if there is none.
  std::shared_ptr<TrainingFeed> feed(const std::string& id) {
    const std::lock_guard lock(models_mutex);
    const auto found = feeds.find(id);
    return found == feeds.end() ? nullptr : found->second;
  }

  /// The model whose training a request names: by default the first one, which `attend train --watch` trains.
  std::string trained_model(const ApiRequest& request) { return model(query_text(request.query, "model", "m0")).id; }

  ApiResponse info(const ApiRequest& request) {
    require_method(request, "GET");
    Json all = Json::array();
    bool is_training = false;
    const std::lock_guard lock(models_mutex);
    for (const InspectedModel& one : models) {
      Json json = model_json(*one.model, one.id, one.name, {.text = one.example, .target = one.example_target},
                             page_beam(one.rules));
      const auto watched = feeds.find(one.id);
      json["training"] = watched != feeds.end();
      is_training = is_training || (watched != feeds.end() && watched->second->is_running());
      if (!one.served_name.empty()) json["serves"] = {{"name", one.served_name}, {"chat", one.has_chat}};
      all.push_back(std::move(json));
    }
    return json_response({{"version", options.version}, {"models", std::move(all)}, {"training", is_training}});
  }

  RunOptions requested_run(const InspectedModel& chosen, const Json& body) {
    const bool reads_pictures = chosen.model->kind() == ModelKind::pictures;
    RunOptions wanted = run_options(body, reads_pictures);
    if (wanted.text.size() > kLongestText) throw ApiError(413, "the text is longer than a MiB");
    wanted.longest = options.longest;
    if (reads_pictures) choose_picture(chosen, optional_text(body, "picture"), wanted);
    return wanted;
  }

  /// The effect of each head on the predictions of a run.
  ApiResponse effects(const ApiRequest& request) {
    require_method(request, "POST");
    const Json body = parse_body(request.body);
    const InspectedModel chosen = model(text_field(body, "model"));
    const RunOptions wanted = requested_run(chosen, body);
    const auto turn = turnstile.enter();
    Json list = Json::array();
    for (const HeadEffect& one : head_effects(chosen, wanted)) {
      list.push_back({{"attention", one.attention}, {"head", one.head}, {"loss", one.loss}});
    }
    return json_response({{"effects", std::move(list)}});
  }

  ApiResponse new_run(const ApiRequest& request) {
    require_method(request, "POST");
    const Json body = parse_body(request.body);
    const InspectedModel chosen = model(text_field(body, "model"));
    RunOptions wanted = requested_run(chosen, body);
    std::shared_ptr<const Run> run;
    {
      const auto turn = turnstile.enter();
      run = std::make_shared<const Run>(capture(chosen, std::move(wanted)));
    }
    return json_response(
        stored_json(runs.add({.id = {}, .model = chosen.id, .run = std::move(run), .tokenizer = chosen.tokenizer})));
  }

  /// A tool of interpretability. One at a time: a sweep may take minutes. Runs of the page do not wait for it.
  ApiResponse tool(const ApiRequest& request, const std::string& name) {
    require_method(request, "POST");
    const Json body = parse_body(request.body);
    const InspectedModel chosen = model(text_field(body, "model"));
    ToolRequest wanted = tool_request(name, body, requested_run(chosen, body));
    if (wanted.other && wanted.other->size() > kLongestText) throw ApiError(413, "the text is longer than a MiB");
    if (const auto id = optional_text(body, "otherPicture")) {
      RunOptions other;
      choose_picture(chosen, id, other);
      wanted.other_picture = other.picture;
    }
    ApiResponse response{.type = "application/x-ndjson"};
    response.stream = [this, chosen, wanted](const SendPiece& send) {
      const auto line = [&](const std::string& json) { return !closing && send(json + "\n"); };
      try {
        const auto turn = sweeps.enter();
        stream_tool(chosen, wanted, line);
      } catch (const std::exception& error) {
        line(error_response(500, error.what()).body);
      }
    };
    return response;
  }

  /// The request's body is the PNG or JPEG file itself.
  ApiResponse new_picture(const ApiRequest& request) {
    require_method(request, "POST");
    StoredPicture picture{.id = {}, .name = query_text(request.query, "name", ""), .bytes = request.body};
    if (picture.name.size() > kLongestName) throw ApiError(400, "the picture's name is too long");
    decoded(picture);
    return json_response({{"id", pictures.add(std::move(picture))}});
  }

  /// Decodes one picture at a time, to bound memory. Requests that use the model do not wait for it.
  Image decoded(const StoredPicture& picture) {
    const auto turn = decoding.enter();
    return picture.decoded();
  }

  /// Chooses the uploaded picture with this id, or without an id the model's example.
  void choose_picture(const InspectedModel& model, const std::optional<std::string>& id, RunOptions& wanted) {
    if (!id) {
      if (!model.example_picture) throw ApiError(400, "expected 'picture'");
      wanted.text = model.example;
      wanted.picture = model.example_picture;
      return;
    }
    const auto picture = pictures.find(*id);
    if (!picture) throw ApiError(404, "there is no picture " + in_quotes(*id) + "; it may have expired");
    wanted.text = picture->name;
    wanted.picture = std::make_shared<const Image>(decoded(*picture));
  }

  /// A stored run, or a training snapshot.
  StoredRun stored(const std::string& id) {
    StoredRun found = runs.find(id);
    if (found.run) return found;
    if (const auto watched = feed("m0")) {
      if (auto snapshot = watched->snapshot(id)) {
        const InspectedModel trained = model("m0");
        return {.id = id, .model = trained.id, .run = std::move(snapshot), .tokenizer = trained.tokenizer};
      }
    }
    throw ApiError(404, "there is no run " + in_quotes(id) + "; it may have expired");
  }

  ApiResponse of_run(const ApiRequest& request, std::string_view rest) {
    require_method(request, "GET");
    const size_t slash = rest.find('/');
    const StoredRun one = stored(std::string(rest.substr(0, slash)));
    if (slash == std::string_view::npos) return json_response(stored_json(one));
    const std::string_view what = rest.substr(slash + 1);
    const Query& query = request.query;
    const auto turn = figures.enter();  // one request may take seconds and 100 MB for a long text
    if (what == "heads") return json_response(heads_json(*one.run));
    if (what == "stats") {
      const int64_t attention = required_number(query, "attention"), head = required_number(query, "head");
      return json_response(stats_json(*one.run, attention, head));
    }
    if (what == "alignment") {
      if (!one.tokenizer) throw ApiError(400, "an image model has no words to align");
      const AlignOptions wanted{.layer = number_or_all(query, "layer"), .head = number_or_all(query, "head")};
      return json_response(alignment_json(alignment_of(*one.run, *one.tokenizer, wanted)));
    }
    if (what == "logits")
      return json_response(logits_json(model(one.model), *one.run, required_number(query, "place")));
    if (what == "array") return array_response(run_array(*one.run, query_text(query, "name", ""), array_part(query)));
    throw ApiError(404, "expected heads, stats, alignment, logits or array of a run, got " + in_quotes(what));
  }

  ApiResponse of_model(const ApiRequest& request, std::string_view rest) {
    require_method(request, "GET");
    const size_t slash = std::min(rest.find('/'), rest.size());
    const InspectedModel chosen = model(std::string(rest.substr(0, slash)));
    const std::string_view what = rest.substr(std::min(slash + 1, rest.size()));
    if (what == "embeddings") {
      const std::string kind = query_text(request.query, "kind", "tokens");
      const int64_t limit = query_number(request.query, "limit").value_or(2000);
      const std::optional<int64_t> also = query_number(request.query, "also");
      if (kind != "tokens" && kind != "positions") throw ApiError(400, "'kind' must be tokens or positions");
      if (kind == "tokens") require_words(chosen);
      const auto turn = turnstile.enter();
      return json_response(plane_json(kind == "tokens" ? token_plane(*chosen.model, *chosen.tokenizer, limit, also)
                                                       : position_plane(*chosen.model, limit)));
    }
    if (what == "neighbours") {
      const int64_t count = query_number(request.query, "count").value_or(12);
      require_words(chosen);
      const int64_t id = chosen_token(request, *chosen.tokenizer);
      const auto turn = turnstile.enter();
      return json_response(neighbours_json(token_neighbours(
          *chosen.model, *chosen.tokenizer, static_cast<int32_t>(std::min<int64_t>(id, INT32_MAX)), count)));
    }
    if (what == "tokens") {
      require_words(chosen);
      const std::string wanted = query_text(request.query, "contains", "");
      if (wanted.empty() || wanted.size() > kLongestName) throw ApiError(400, "expected 'contains' of 1 to 1024 bytes");
      return json_response(tokens_json(find_tokens(*chosen.tokenizer, wanted)));
    }
    throw ApiError(404, "expected embeddings, neighbours or tokens of a model, got " + in_quotes(what));
  }

  static void require_words(const InspectedModel& model) {
    if (!model.tokenizer) throw ApiError(400, "an image model has no tokens");
  }

  static int64_t chosen_token(const ApiRequest& request, const Tokenizer& tokenizer) {
    if (const auto id = query_number(request.query, "token")) return *id;
    const std::string text = query_text(request.query, "text", "");
    if (text.size() > kLongestText) throw ApiError(413, "the text is longer than a MiB");
    const std::vector<int32_t> ids = tokenizer.encode(text);
    if (ids.empty()) throw ApiError(400, "expected 'token' or 'text'");
    return ids[0];
  }

  ApiResponse generation(const ApiRequest& request) {
    require_method(request, "POST");
    const Json body = parse_body(request.body);
    const InspectedModel chosen = model(text_field(body, "model"));
    GenerationOptions wanted = generation_options(body);
    wanted.rules = chosen.rules;
    // Check the options before the stream begins: afterwards an error can no longer set the status.
    ApiResponse response{.type = "application/x-ndjson"};
    check_generation(*chosen.model, wanted);
    response.stream = [this, chosen, wanted](const SendPiece& send) {
      const auto line = [&](const std::string& json) { return !closing && send(json + "\n"); };
      try {
        const auto turn = turnstile.enter();
        generate_steps(*chosen.model, *chosen.tokenizer, wanted, line);
      } catch (const std::exception& error) {
        line(error_response(500, error.what()).body);
      }
    };
    return response;
  }

  ApiResponse training(const ApiRequest& request) {
    require_method(request, "GET");
    const auto watched = feed(trained_model(request));
    if (watched) return {.body = watched->json()};
    return json_response({{"running", false},
                          {"steps", Json::array()},
                          {"validation", Json::array()},
                          {"total", 0},
                          {"secondsLeft", 0},
                          {"labelSmoothing", 0},
                          {"snapshots", Json::array()},
                          {"text", ""},
                          {"target", ""}});
  }

  ApiResponse training_events(const ApiRequest& request) {
    require_method(request, "GET");
    const auto watched = feed(trained_model(request));
    if (!watched) throw ApiError(404, "nothing is being trained");
    ApiResponse response{.type = "text/event-stream"};
    response.stream = [this, watched](const SendPiece& send) {
      size_t next = watched->next_event();
      bool goes_on = send(": listening\n\n");
      for (int quiet = 0; goes_on && !closing;) {
        if (const auto event = watched->event(next, std::chrono::milliseconds(200))) {
          goes_on = send("data: " + *event + "\n\n");
          ++next, quiet = 0;
        } else if (++quiet % 25 == 0) {
          goes_on = send(": still here\n\n");  // a disconnected client is detected only by writing to it
        }
      }
    };
    return response;
  }

  ApiResponse training_sentence(const ApiRequest& request) {
    require_method(request, "POST");
    const Json body = parse_body(request.body);
    const auto watched = feed("m0");
    if (!watched || !watched->is_running()) throw ApiError(409, "nothing is being trained");
    const InspectedModel trained = model("m0");
    RunOptions wanted{.text = text_field(body, "text"), .target = optional_text(body, "target")};
    if (std::ssize(trained.tokenizer->encode(wanted.text)) + 2 > trained.model->context()) {
      throw ApiError(400, "the sentence is longer than the model's context");
    }
    watched->set_sentence({.text = wanted.text, .target = wanted.target});
    return json_response({{"text", wanted.text}});
  }

  /// Reserves one of the `most_streams` open streams until the last copy of the result is destroyed.
  std::shared_ptr<void> take_stream() {
    if (streams.fetch_add(1) >= options.most_streams) {
      --streams;
      throw ApiError(503, "too many streams are open; try again");
    }
    return {this, [](State* state) { --state->streams; }};
  }

  std::vector<InspectedModel> models;  // changed by replace_model(); read through model()
  ApiOptions options;
  std::string policy = page_policy(options.page);
  RunStore runs;
  PictureStore pictures;
  Turnstile turnstile, figures, sweeps, decoding;
  std::mutex models_mutex;
  std::map<std::string, std::shared_ptr<TrainingFeed>> feeds;  // by model id
  std::atomic<bool> closing{false};
  std::atomic<int> streams{0};
};

Api::Api(std::vector<InspectedModel> models, ApiOptions options)
    : state_(std::make_unique<State>(std::move(models), std::move(options))) {}

Api::~Api() = default;

ApiResponse Api::handle(const ApiRequest& request) {
  try {
    ApiResponse response = state_->answer(request);
    if (!response.stream) return response;
    response.stream = [place = state_->take_stream(), inner = std::move(response.stream)](const SendPiece& send) {
      inner(send);
    };
    return response;
  } catch (const ApiError& error) {
    return error_response(error.status, error.what());
  } catch (const Error& error) {
    return error_response(400, error.what());
  } catch (const std::bad_alloc&) {
    return error_response(503, "out of memory for this request");
  } catch (const std::exception& error) {
    return error_response(500, error.what());
  }
}

void Api::set_training(size_t index, std::shared_ptr<TrainingFeed> feed) {
  const std::lock_guard lock(state_->models_mutex);
  const std::string& id = state_->models.at(index).id;
  if (feed) state_->feeds[id] = std::move(feed);
}

void Api::replace_model(size_t index, std::shared_ptr<const Model> model) {
  const std::lock_guard lock(state_->models_mutex);
  state_->models.at(index).model = std::move(model);
}

void Api::close() { state_->closing = true; }

}  // namespace attend
