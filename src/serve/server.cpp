#include "attend/serve/server.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "attend/base/error.h"
#include "serve/admission.h"
#include "serve/http/http_server.h"
#include "serve/http/worker_pool.h"
#include "serve/model_api_state.h"

namespace attend {
namespace {

constexpr size_t kPageThreads = 32;
constexpr int kTries = 20;  // ports tried after one in use

/// Creates request ids that are unique, also across processes.
class RequestIds {
 public:
  std::string next() {
    char text[48];
    std::snprintf(text, sizeof text, "req_%016llx%016llx", static_cast<unsigned long long>(process_),
                  static_cast<unsigned long long>(++count_));
    return text;
  }

 private:
  static uint64_t random() {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }
  uint64_t process_ = random();
  uint64_t count_ = random();  // used by the server's thread only
};

void answer(Api& page, HttpRequest request, Responder responder) {
  ApiRequest asked{.method = request.method == "HEAD" ? "GET" : request.method,
                   .path = std::move(request.path),
                   .query = std::move(request.query),
                   .body = request.method == "POST" ? std::move(request.body) : ""};
  ApiResponse answer = page.handle(asked);
  HttpResponse response{.status = answer.status, .type = answer.type, .body = std::move(answer.body)};
  for (const auto& [name, value] : answer.headers) response.headers.push_back({name, value});
  if (!answer.stream) return responder.send(std::move(response));
  responder.start(std::move(response));
  answer.stream([&](std::string_view piece) { return responder.write_patiently(piece); });
  responder.finish();
}

}  // namespace

struct Server::State {
  State(Api* the_page, ModelApi* the_models, ServerOptions given)
      : options(std::move(given)),
        page(the_page),
        models(the_models),
        admission(options, page != nullptr, models != nullptr),
        pool(kPageThreads),
        http({.check = [this](const HttpRequest& head) { return admission.check(head); },
              .refuse = [this](const HttpRequest& head, const Refusal& why) { return refuse(head, why); },
              .handle = [this](HttpRequest request,
                               Responder responder) { route(std::move(request), std::move(responder)); }},
             {}) {
    take_port();
  }

  HttpResponse refuse(const HttpRequest& head, const Refusal& why) {
    HttpResponse response = admission.refuse(head, why);
    response.headers.push_back({"x-request-id", ids.next()});
    if (why.status == 405) {
      const bool is_page = models == nullptr || admission.is_for_page(head);
      response.headers.push_back({"Allow", is_page ? "GET, HEAD, POST" : methods_of(head.path)});
    }
    if (models != nullptr) models->state().context.metrics.answered(counted_path(head), why.status);
    return response;
  }

  /// The path in metrics: one of a fixed set, whatever clients send.
  std::string counted_path(const HttpRequest& head) const {
    if (!admission.is_for_page(head)) return route_name(head.path);
    return head.path.starts_with("/api/") ? "/api" : head.path.starts_with("/view") ? "/view" : "/";
  }

  void route(HttpRequest request, Responder responder) {
    responder.add_header("x-request-id", ids.next());
    if (models != nullptr) {
      responder.on_status([metrics = &models->state().context.metrics, path = counted_path(request)](int status) {
        metrics->answered(path, status);
      });
    }
    for (HttpHeader& header : admission.headers(request)) {
      responder.add_header(std::move(header.name), std::move(header.value));
    }
    if (request.method == "OPTIONS") return responder.send({.status = 204, .type = {}});
    if (const auto why = admission.check_body(request)) {
      return responder.send(error_response(request.path, RequestError(why->status, why->why)));
    }
    if (!admission.is_for_page(request)) {
      responder.set_failure_body(error_response(request.path, RequestError(500, "the request failed")).body);
      return models->state().handle(std::move(request), std::move(responder));
    }
    const auto shared = std::make_shared<std::pair<HttpRequest, Responder>>(std::move(request), std::move(responder));
    pool.add([this, shared] {
      try {
        answer(*page, std::move(shared->first), std::move(shared->second));
      } catch (const std::exception&) {  // out of memory, for example: the responder closes the connection
      }
    });
  }

  void take_port() {
    if (options.port != 0) {
      const int tries = options.other_port ? kTries : 1;
      for (int i = 0; i < tries && port == 0; ++i) port = http.listen(options.host, options.port + i);
      require<Error>(port != 0 || options.other_port, "cannot listen at ", options.host, " port ", options.port,
                     ": port in use, or not a local address");
    }
    if (port == 0) port = http.listen(options.host, 0);
    require<Error>(port > 0, "cannot listen at ", options.host, ": no free port, or not a local address");
  }

  ServerOptions options;
  Api* page;
  ModelApi* models;
  Admission admission;
  RequestIds ids;
  WorkerPool pool;
  HttpServer http;
  int port = 0;
  bool is_started = false;
};

Server::Server(Api& page, const ServerOptions& options) : state_(std::make_unique<State>(&page, nullptr, options)) {}

Server::Server(Api* page, ModelApi& models, const ServerOptions& options)
    : state_(std::make_unique<State>(page, &models, options)) {}

Server::~Server() { stop(); }

int Server::port() const { return state_->port; }

std::string Server::address() const {
  const std::string& host = state_->options.host;
  const bool is_any = host == "0.0.0.0" || host == "::";
  const std::string shown = is_any ? "localhost" : host.find(':') != std::string::npos ? "[" + host + "]" : host;
  return "http://" + shown + ":" + std::to_string(state_->port) + "/";
}

int64_t Server::running() const { return state_->http.running(); }

void Server::start() {
  state_->http.start();
  state_->is_started = true;
}

bool Server::drain(std::chrono::milliseconds patience) {
  state_->admission.close();
  const auto end = std::chrono::steady_clock::now() + patience;
  while (state_->http.running() > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

void Server::stop() {
  if (!std::exchange(state_->is_started, false)) return;
  if (state_->page != nullptr) state_->page->close();
  state_->http.stop();
  state_->pool.stop();
}

}  // namespace attend
