#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "serve/http/deadline.h"
#include "serve/http/request_parser.h"
#include "serve/http/responder.h"

namespace attend {

struct HttpOptions {
  RequestLimits limits{};
  size_t most_connections = 4096;                 ///< beyond that, the connection that waits longest is closed
  size_t most_request_bytes = size_t{256} << 20;  ///< of all requests that are being received
  std::chrono::milliseconds idle{30'000};         ///< how long a connection may wait for its next request
};

/// An HTTP/1.1 server. One thread polls all connections, so that slow clients take no threads. Each read and write may
/// take 5 seconds plus one second per 128 KiB; after that the request gets 408, or the connection is closed. If a
/// client closes its connection before it has the whole response, the response's Responder::is_gone() becomes true.
class HttpServer {
 public:
  /// All three run in the server's thread and must not block. `check` sees the head of each request before its body is
  /// read. `refuse` makes the response to a refused request, whose head may be missing. `handle` receives complete
  /// requests.
  struct Callbacks {
    RequestParser::Check check;
    std::function<HttpResponse(const HttpRequest&, const Refusal&)> refuse;
    std::function<void(HttpRequest, Responder)> handle;
  };

  HttpServer(Callbacks callbacks, const HttpOptions& options);
  ~HttpServer();  ///< calls stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Listens at a port, 0: any free one. Returns the port; 0 if that is not possible.
  int listen(const std::string& host, int port);
  void start();
  /// Number of requests whose responses are not complete.
  int64_t running() const { return running_; }
  /// Closes idle connections, gives clients up to a second to receive complete responses, and joins the thread.
  void stop();

 private:
  enum class Phase { reading, serving, leaving };
  struct Connection {
    Connection(int file, const HttpServer& server)
        : socket(file), parser(server.options_.limits, server.callbacks_.check) {}
    int socket;
    std::string client{};
    RequestParser parser;
    Phase phase = Phase::reading;
    Deadline deadline{};
    std::shared_ptr<Channel> channel{};  // of the response in phase serving
    bool is_blocked = false;             // the socket accepts no more bytes
    bool is_half_closed = false;         // the client sends nothing more but may still read
    uint32_t events = 0;                 // registered with epoll
  };
  using Connections = std::map<uint64_t, Connection>;  // the oldest first

  void run();
  void accept_some();
  bool make_room();
  /// Calls a member function for a connection that may have ended meanwhile. Exceptions end the connection.
  template <class... Arguments>
  void look_after(uint64_t id, void (HttpServer::*action)(Connections::iterator, Arguments...), Arguments... arguments);
  void ready(Connections::iterator it, uint32_t events);
  void receive(Connections::iterator it);
  void next_request(Connections::iterator it);
  void flush(Connections::iterator it);
  void finished(Connections::iterator it);
  void scan();
  void expire(Connections::iterator it);
  void drop(Connections::iterator it);
  void watch(uint64_t id, Connection& connection);
  Responder serve(Connections::iterator it, const HttpRequest& request);
  void refuse(Connections::iterator it, const Refusal& refusal);

  Callbacks callbacks_;
  HttpOptions options_;
  std::shared_ptr<LoopDoor> door_ = std::make_shared<LoopDoor>();
  int epoll_ = -1, listener_ = -1;
  bool is_listening_ = false;  // the listener is registered with epoll
  uint64_t next_id_ = 2;       // 0 and 1 are the listener and the door
  Connections connections_;
  size_t request_bytes_ = 0;
  Deadline::Clock::time_point last_scan_{};
  std::atomic<int64_t> running_{0};
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace attend
