#include "attend/serve/server.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <thread>

#include "attend/base/error.h"
#include "serve/limited_server.h"

namespace attend {
namespace {

constexpr size_t kLargestBody = size_t{16} << 20, kThreads = 32;  // a photograph fits
constexpr int kTries = 20;                                        // ports after a taken one

ApiRequest request_of(const httplib::Request& from, std::string body) {
  ApiRequest request{.method = from.method, .path = from.path, .query = {}, .body = std::move(body)};
  for (const auto& [name, value] : from.params) request.query.emplace(name, value);
  return request;
}

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content("{\"error\":\"" + why + "\"}", "application/json");
}

void fill(httplib::Response& to, ApiResponse from) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) to.set_header(name, value);
  // What is wrong is said in the body itself: the error handler takes one that is empty for an error of httplib's own.
  if (!from.stream && (from.body.empty() || from.status >= 400)) return to.set_content(from.body, from.type);
  if (!from.stream) {
    // What a provider gives goes out as it is; httplib packs other bodies with brotli's slowest setting.
    const auto body = std::make_shared<std::string>(std::move(from.body));
    to.set_content_provider(body->size(), from.type, [body](size_t offset, size_t length, httplib::DataSink& sink) {
      return offset <= body->size() && sink.write(body->data() + offset, std::min(length, body->size() - offset));
    });
    return;
  }
  const auto stream = std::make_shared<std::function<void(const SendPiece&)>>(std::move(from.stream));
  to.set_chunked_content_provider(from.type, [stream](size_t, httplib::DataSink& sink) {
    (*stream)([&](std::string_view piece) { return sink.write(piece.data(), piece.size()); });
    sink.done();
    return true;
  });
}

/// What stands for a status that httplib itself gives.
std::string reason(int status) {
  switch (status) {
    case 400:
      return "the request cannot be read";
    case 404:
      return "there is nothing here";
    case 413:
      return "the request is too large";
    case 414:
      return "the address is too long";
    case 416:
      return "answers are given as a whole only";
    default:
      return "the request cannot be answered";
  }
}

/// A status, and why a request gets it.
struct Refusal {
  int status = 0;
  std::string why;
};

/// What is wrong with the length of a body. httplib would take one of unsaid length, in chunks or until the connection
/// ends, without any limit, and one that is packed, or in parts, for more than it says.
std::optional<Refusal> wrong_body(const httplib::Request& request) {
  if (request.has_header("Content-Encoding")) return Refusal{415, "the body must not be packed"};
  if (request.is_multipart_form_data()) return Refusal{415, "the body must not be in parts"};
  const bool has_length = request.has_header("Content-Length");
  if (request.has_header("Transfer-Encoding") || (request.method == "POST" && !has_length)) {
    return Refusal{411, "the length of the body must be given"};
  }
  const std::string length = request.get_header_value("Content-Length");
  const bool is_number = std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (has_length && (length.empty() || !is_number || request.get_header_value_count("Content-Length") > 1)) {
    return Refusal{400, "the length of the body is no number"};
  }
  if (length.size() > 18 || (has_length && std::stoull(length) > kLargestBody)) return Refusal{413, reason(413)};
  return std::nullopt;
}

/// What can be said of a request by its head, before anything else is read.
std::optional<Refusal> wrong_head(const httplib::Request& request, const std::string& own) {
  if (request.get_header_value_count("Host") > 1 || request.get_header_value_count("Origin") > 1 ||
      !is_own_request(request.get_header_value("Host"), request.get_header_value("Origin"), own)) {
    return Refusal{403, "this page answers only its own address on this machine"};
  }
  if (request.method != "GET" && request.method != "POST" && request.method != "HEAD") {
    return Refusal{405, "only GET and POST are answered"};
  }
  if (request.has_header("Range")) return Refusal{416, reason(416)};
  return wrong_body(request);
}

/// Only as long as it is needed: by default httplib lets two servers share a port.
void own_port(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

struct Server::State {
  Api& api;
  ServerOptions options;
  LimitedServer server{kThreads, kLargestBody};
  int port = 0;
  std::thread thread;

  State(Api& target, const ServerOptions& given) : api(target), options(given) {
    server.set_socket_options(own_port);
    server.set_tcp_nodelay(true);
    server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cross-Origin-Resource-Policy", "same-origin"},
                                {"Accept-Ranges", "none"},
                                {"Cache-Control", "no-store"}});
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (const auto wrong = wrong_head(request, options.host)) {
        refuse(response, wrong->status, wrong->why);
        return httplib::Server::HandlerResponse::Handled;
      }
      return httplib::Server::HandlerResponse::Unhandled;
    });
    server.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      fill(response, api.handle(request_of(request, {})));
    });
    // By itself httplib takes a body that is called a form, as curl calls whatever it sends, apart for queries, and
    // refuses it above 8 KiB.
    server.Post(
        ".*", [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
          std::string body;
          const bool is_whole = read([&](const char* bytes, size_t count) { return body.append(bytes, count), true; });
          if (is_whole) return fill(response, api.handle(request_of(request, std::move(body))));
          if (response.status < 400) response.status = 400;
          refuse(response, response.status, reason(response.status));
        });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) refuse(response, response.status, reason(response.status));
    });
    server.set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      refuse(response, 500, reason(500));
    });
  }

  void take_port() {
    if (options.port != 0) {
      const int tries = options.other_port ? kTries : 1;
      for (int i = 0; i < tries && port == 0; ++i) {
        if (server.bind_to_port(options.host, options.port + i)) port = options.port + i;
      }
      require<Error>(port != 0 || options.other_port, "cannot listen at ", options.host, " port ", options.port,
                     ": another program does, or it is no address of this machine");
    }
    if (port == 0) port = server.bind_to_any_port(options.host);
    require<Error>(port > 0, "cannot listen at ", options.host, ": it is no address of this machine");
    server.lengthen_queue();
  }
};

Server::Server(Api& api, const ServerOptions& options) : state_(std::make_unique<State>(api, options)) {
  state_->take_port();
}

Server::~Server() { stop(); }

int Server::port() const { return state_->port; }

std::string Server::address() const {
  const std::string& host = state_->options.host;
  const bool is_any = host == "0.0.0.0" || host == "::";
  const std::string shown = is_any ? "localhost" : host.find(':') != std::string::npos ? "[" + host + "]" : host;
  return "http://" + shown + ":" + std::to_string(state_->port) + "/";
}

void Server::start() {
  state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
  while (!state_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Server::stop() {
  if (!state_->thread.joinable()) return;
  state_->api.close();
  state_->server.stop();
  state_->thread.join();
}

}  // namespace attend
