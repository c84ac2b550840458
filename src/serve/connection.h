#pragma once

#include <httplib.h>

#include <atomic>
#include <string>

#include "serve/waiting_room.h"

namespace attend {

/// A complete request and the socket for its response. Each write has a deadline. It also fails if the client does not
/// keep up while the server is stopping, that is when `listening` becomes invalid. The waiting room sends the rest of a
/// long response and closes the socket.
class Connection final : public httplib::Stream {
 public:
  Connection(Arrival request, WaitingRoom& room, const std::atomic<socket_t>& listening)
      : request_(std::move(request)), room_(room), listening_(listening) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  bool is_readable() const override { return true; }
  bool is_writable() const override;
  ssize_t read(char* to, size_t size) override;           ///< at most `size` bytes of the request; 0: end
  ssize_t write(const char* from, size_t size) override;  ///< all `size` bytes, or -1
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return request_.socket; }

 private:
  bool wait(const Deadline& deadline) const;

  Arrival request_;
  WaitingRoom& room_;
  const std::atomic<socket_t>& listening_;
  size_t given_ = 0;  // bytes of the request that were read
  std::string rest_;  // of the response, for the waiting room to send
};

}  // namespace attend
