#pragma once

#include <httplib.h>

namespace attend {

/// httplib's server, which by itself takes heads and bodies of any length, at any pace, for limits on what a connection
/// may cost. A connection carries one request and is closed after the answer, so that what else comes, such as the body
/// of a request that was refused by its head, is never taken for a request. A head has at most 32 KiB (431). Whatever
/// is read or written takes at most 5 seconds, and a second more for each 128 KiB (408, or the connection just ends).
class LimitedServer : public httplib::Server {
 private:
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace attend
