#pragma once

#include <httplib.h>

#include <memory>

#include "serve/waiting_room.h"

namespace attend {

/// httplib's server, which by itself takes heads and bodies of any length, at any pace, in a thread for each, for
/// limits on what a connection may cost. Requests come together in a WaitingRoom: a thread has only whole ones to
/// answer. A connection carries one request and is closed after the answer, so that what else comes, such as the body
/// of a request that was refused by its head, is never taken for a request. Whatever is read or written takes at most 5
/// seconds, and a second more for each 128 KiB (408, or the connection just ends).
class LimitedServer : public httplib::Server {
 public:
  LimitedServer(size_t threads, size_t largest_body);
  /// After the port was taken: httplib lets five connections wait to be accepted, and the system makes any beyond that
  /// try again after a second.
  void lengthen_queue();

 private:
  class Reception;
  bool process_and_close_socket(socket_t socket) override;
  void answer(Arrival request, WaitingRoom& room);

  Reception* reception_ = nullptr;  // while it listens
};

}  // namespace attend
