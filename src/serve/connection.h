#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <string>

namespace attend {

/// The time for one thing to be read or written: 5 seconds, and one more for each 128 KiB that has come or gone.
class Deadline {
 public:
  void moved(size_t bytes);
  std::chrono::milliseconds left() const;  ///< 0 or less: it has passed

 private:
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(5);
};

/// A socket that somebody connected to, until it is destroyed. Reading and writing have deadlines, and end early when
/// `listening` turns invalid, that is when the server stops, and the other side is not keeping up.
class Connection final : public httplib::Stream {
 public:
  Connection(socket_t socket, const std::atomic<socket_t>& listening) : socket_(socket), listening_(listening) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;  ///< closes it, after the other side had a second to take the answer and to close it too

  enum class Head { whole, too_long, late, none };
  /// Waits for all lines up to the first empty one, which `read` then gives again. Afterwards the body's time begins.
  Head read_head();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, size_t size) override;           ///< what is there, at most `size`; 0: no more; -1: failed
  ssize_t write(const char* from, size_t size) override;  ///< all of it, or -1
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short events, const Deadline& deadline) const;
  ssize_t receive(char* to, size_t size);

  socket_t socket_;
  const std::atomic<socket_t>& listening_;
  Deadline reading_;
  std::string head_;  // and what came along with it
  size_t given_ = 0;  // of head_
};

}  // namespace attend
