#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace attend {

class Channel;

/// The part of the event loop that other threads use: a list of channels with news, and the means to wake the loop.
class LoopDoor {
 public:
  LoopDoor();
  ~LoopDoor();
  LoopDoor(const LoopDoor&) = delete;
  LoopDoor& operator=(const LoopDoor&) = delete;

  int file() const { return file_; }  ///< readable when the loop has something to do
  void wake() const;
  void call(uint64_t connection);
  /// The connections with news since the last call.
  std::vector<uint64_t> take_calls();

  std::atomic<int64_t> unsent{0};  ///< bytes of all responses in memory

 private:
  int file_;  // an eventfd
  std::mutex mutex_;
  std::vector<uint64_t> calls_;
};

/// The bytes of one response on their way from a handler to the event loop.
class Channel {
 public:
  Channel(std::shared_ptr<LoopDoor> door, uint64_t connection) : door_(std::move(door)), connection_(connection) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // For handlers:
  bool append(std::string_view bytes, bool is_last, bool closes);
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }
  /// Waits until fewer than `most` bytes of this response, and fewer than kMostUnsent of all responses, are unsent.
  /// False if the client is gone.
  bool wait_for_room(size_t most);
  size_t unsent() const;

  // For the event loop:
  enum class Sent { all, some, nothing, failed };
  /// Sends what the socket accepts; `count` is the number of bytes sent.
  Sent send_to(int socket, size_t& count);
  bool is_complete() const;  ///< no more bytes will be appended
  bool is_finished() const;  ///< the response is complete and sent
  bool closes() const;
  void leave();  ///< the client is gone

 private:
  static constexpr int64_t kMostUnsent = int64_t{512} << 20;

  std::shared_ptr<LoopDoor> door_;
  uint64_t connection_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string bytes_;
  size_t sent_ = 0;  // of bytes_
  bool is_complete_ = false, closes_ = false, is_called_ = false;
  std::atomic<bool> is_gone_{false};
};

/// Answers one request, from any thread, one thread at a time. A responder that is destroyed before its response is
/// complete closes the connection, with status 500 and the failure body if nothing was sent.
class Responder {
 public:
  Responder(std::shared_ptr<Channel> channel, const HttpRequest& request);
  Responder(Responder&&) = default;
  Responder& operator=(Responder&&) = delete;
  ~Responder();

  /// Sends a whole response.
  void send(HttpResponse response);
  /// Starts a response whose body follows in pieces. `response.body` is the first piece.
  void start(HttpResponse response);
  /// Sends a piece of the body. False if the client is gone, or has more than a MiB left to read.
  bool write(std::string_view piece);
  /// write() that waits for a client that reads slowly. False if the client is gone.
  bool write_patiently(std::string_view piece);
  void finish();  ///< ends the pieces
  bool is_gone() const { return channel_->is_gone(); }
  bool is_started() const { return is_started_; }
  bool is_valid() const { return channel_ != nullptr; }  ///< false after a move
  /// Calls `notice` with the status of the response.
  void on_status(std::function<void(int)> notice) { notice_ = std::move(notice); }
  /// The body of the response to a request that nobody answers.
  void set_failure_body(std::string body) { failure_body_ = std::move(body); }
  /// Headers added to the response.
  void add_header(std::string name, std::string value) { headers_.push_back({std::move(name), std::move(value)}); }

 private:
  void begin(HttpResponse& response, std::optional<size_t> length);
  bool piece(std::string_view bytes);

  std::shared_ptr<Channel> channel_;
  std::vector<HttpHeader> headers_;
  std::function<void(int)> notice_;
  std::string failure_body_ = R"({"error":"the request failed"})";
  bool is_http10_ = false, is_head_ = false, keeps_alive_ = true, is_started_ = false, is_finished_ = false;
};

}  // namespace attend
