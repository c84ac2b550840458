#pragma once

#include <httplib.h>

#include <atomic>
#include <string>

#include "serve/waiting_room.h"

namespace attend {

/// A request that has come whole, and the socket for its answer, until it is destroyed. Writing has deadlines, and ends
/// early when `listening` turns invalid, that is when the server stops, and the other side is not keeping up. The rest
/// of a long answer is left to the waiting room, as is the closing of the socket.
class Connection final : public httplib::Stream {
 public:
  Connection(Arrival request, WaitingRoom& room, const std::atomic<socket_t>& listening)
      : request_(std::move(request)), room_(room), listening_(listening) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  bool is_readable() const override { return true; }
  bool is_writable() const override;
  ssize_t read(char* to, size_t size) override;           ///< at most `size` bytes of the request; 0: no more
  ssize_t write(const char* from, size_t size) override;  ///< all of it, or -1
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return request_.socket; }

 private:
  bool wait(const Deadline& deadline) const;

  Arrival request_;
  WaitingRoom& room_;
  const std::atomic<socket_t>& listening_;
  size_t given_ = 0;  // of the request
  std::string rest_;  // of the answer, for the room to send
};

}  // namespace attend
