#include "attend/serve/server.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <thread>

#include "attend/base/error.h"
#include "serve/limited_server.h"

namespace attend {
namespace {

constexpr size_t kLargestBody = size_t{16} << 20, kThreads = 32;  // the body of an uploaded photograph fits
constexpr int kTries = 20;                                        // ports tried after one in use

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
  // Errors must have a body: the error handler takes a response without one for an error of httplib itself.
  if (!from.stream && (from.body.empty() || from.status >= 400)) return to.set_content(from.body, from.type);
  if (!from.stream) {
    // A content provider's bytes are sent unchanged. httplib would compress other bodies with brotli's slowest setting.
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

/// The message for a status that httplib itself sets.
std::string reason(int status) {
  switch (status) {
    case 400:
      return "the request is malformed";
    case 404:
      return "no such path";
    case 413:
      return "the request is too large";
    case 414:
      return "the address is too long";
    case 416:
      return "range requests are not supported";
    default:
      return "the request failed";
  }
}

/// The status and message of a refused request.
struct Refusal {
  int status = 0;
  std::string why;
};

/// Checks the headers that describe the body. httplib reads a body of undeclared length (chunked, or until the
/// connection ends) without a limit, and a compressed or multipart body may be longer than declared.
std::optional<Refusal> wrong_body(const httplib::Request& request) {
  if (request.has_header("Content-Encoding")) return Refusal{415, "the body must not be compressed"};
  if (request.is_multipart_form_data()) return Refusal{415, "the body must not be multipart"};
  const bool has_length = request.has_header("Content-Length");
  if (request.has_header("Transfer-Encoding") || (request.method == "POST" && !has_length)) {
    return Refusal{411, "the request needs a Content-Length"};
  }
  const std::string length = request.get_header_value("Content-Length");
  const bool is_number = std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (has_length && (length.empty() || !is_number || request.get_header_value_count("Content-Length") > 1)) {
    return Refusal{400, "Content-Length is not a number"};
  }
  if (length.size() > 18 || (has_length && std::stoull(length) > kLargestBody)) return Refusal{413, reason(413)};
  return std::nullopt;
}

/// Checks the head of a request before its body is read.
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

/// Takes the port for this server alone: httplib's default lets two servers share a port.
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
    // Reads the body itself: httplib would parse a body declared as a form (curl's default) as query parameters, and
    // refuse it above 8 KiB.
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
                     ": port in use, or not a local address");
    }
    if (port == 0) port = server.bind_to_any_port(options.host);
    require<Error>(port > 0, "cannot listen at ", options.host, ": no free port, or not a local address");
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
