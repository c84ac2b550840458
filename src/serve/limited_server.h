#pragma once

#include <httplib.h>

#include <memory>

#include "serve/waiting_room.h"

namespace attend {

/// httplib's server with limits on the cost of a connection. By itself, httplib reads heads and bodies of any length at
/// any pace, each in a thread of its own. Here a WaitingRoom assembles requests, and threads answer only complete ones.
/// A connection carries one request and is closed after the response, so that further bytes, such as the body of a
/// request that was refused by its head, are never parsed as a request. Each read and write may take 5 seconds plus one
/// second per 128 KiB; after that the request gets 408, or the connection is closed.
class LimitedServer : public httplib::Server {
 public:
  LimitedServer(size_t threads, size_t largest_body);
  /// Call after binding the port. httplib's backlog is five connections; the kernel makes further clients retry after a
  /// second.
  void lengthen_queue();

 private:
  class Reception;
  bool process_and_close_socket(socket_t socket) override;
  void answer(Arrival request, WaitingRoom& room);

  Reception* reception_ = nullptr;  // set while listening
};

}  // namespace attend
