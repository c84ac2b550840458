#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attend/serve/api.h"

namespace attend {

class ModelApi;

struct ServerOptions {
  std::string host = "127.0.0.1";           ///< address to listen on
  int port = 8757;                          ///< 0: any free port
  bool other_port = true;                   ///< use another port if this one is in use
  std::vector<std::string> names{};         ///< further host names that requests may be addressed to, in lower case
  std::vector<std::string> cors_origins{};  ///< like https://app.example: pages that may use the models; "*": all
  std::vector<std::string> api_keys{};      ///< if not empty, requests to the models need one of these keys
};

/// Serves the page of an Api, a ModelApi, or both over HTTP. Rejects requests that come from a page of another origin,
/// or are addressed to another host name. One thread polls all connections, so that thousands may be open.
class Server {
 public:
  /// Binds the port. Throws Error if the port is in use or the host is not a local address.
  Server(Api& page, const ServerOptions& options);
  /// `page` may be null. With API keys, the page is not served, because it has no key.
  Server(Api* page, ModelApi& models, const ServerOptions& options);
  ~Server();  ///< calls stop()

  int port() const;
  std::string address() const;  ///< http://127.0.0.1:8757/
  void start();                 ///< starts to serve, in background threads
  int64_t running() const;      ///< number of requests that are not answered yet
  /// Rejects further requests with status 503 and waits until the running ones are answered. False if that takes
  /// longer than `patience`.
  bool drain(std::chrono::milliseconds patience);
  void stop();  ///< ends streams and waits for all threads

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether a request with these headers may come from this server's page: the host is an IP address, localhost or
/// `own`, and the origin, if any, is the same host. This rejects DNS rebinding, where an attacker's host name resolves
/// to this machine.
bool is_own_request(const std::string& host, const std::string& origin, const std::string& own);

}  // namespace attend
