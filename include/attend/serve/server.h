#pragma once

#include <memory>
#include <string>

#include "attend/serve/api.h"

namespace attend {

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< the address to listen at
  int port = 8757;                 ///< 0: any that is free
  bool other_port = true;          ///< take another one if that is taken
};

/// An Api over HTTP, for browsers on this machine: requests that come from a page of somebody else, or under a name
/// that is not ours, are refused.
class Server {
 public:
  /// Takes the port. Throws Error if it is taken or the host is not an address of this machine.
  Server(Api& api, const ServerOptions& options);
  ~Server();  ///< stops it

  int port() const;
  std::string address() const;  ///< http://127.0.0.1:8757/
  void start();                 ///< answers from now on, in threads of its own
  void stop();                  ///< ends streams, and returns when all threads have

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether a request with these headers may come from our own page: the host is an address, localhost or `own`, and the
/// origin, if there is one, is that host. A name that an attacker points at this machine is neither.
bool is_own_request(const std::string& host, const std::string& origin, const std::string& own);

}  // namespace attend
