#include "serve/http/responder.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "attend/base/error.h"

namespace attend {
namespace {

constexpr size_t kMostPending = size_t{1} << 20;  // maximum number of bytes that wait for a slow client

}  // namespace

LoopDoor::LoopDoor() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require<Error>(file_ >= 0, "cannot create an eventfd: too many open files");
}

LoopDoor::~LoopDoor() { close(file_); }

void LoopDoor::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(file_, &one, sizeof one);
}

void LoopDoor::call(uint64_t connection) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = calls_.empty();
    calls_.push_back(connection);
  }
  if (is_first) wake();
}

std::vector<uint64_t> LoopDoor::take_calls() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(file_, &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::move(calls_);
}

Channel::~Channel() { door_->unsent -= static_cast<int64_t>(bytes_.size() - sent_); }

bool Channel::append(std::string_view bytes, bool is_last, bool closes) {
  {
    const std::lock_guard lock(mutex_);
    if (is_gone_) return false;
    bytes_.append(bytes);
    door_->unsent += static_cast<int64_t>(bytes.size());
    is_complete_ |= is_last;
    closes_ |= closes;
    if (std::exchange(is_called_, true)) return true;
  }
  door_->call(connection_);
  return true;
}

size_t Channel::unsent() const {
  const std::lock_guard lock(mutex_);
  return bytes_.size() - sent_;
}

bool Channel::wait_for_room(size_t most) {
  constexpr std::chrono::milliseconds kInterval{50};  // other responses do not notify this one
  std::unique_lock lock(mutex_);
  const auto has_room = [&] { return bytes_.size() - sent_ < most && door_->unsent < kMostUnsent; };
  while (!is_gone_ && !has_room()) changed_.wait_for(lock, kInterval);
  return !is_gone_;
}

Channel::Sent Channel::send_to(int socket, size_t& count) {
  const std::lock_guard lock(mutex_);
  is_called_ = false;
  count = 0;
  if (sent_ == bytes_.size()) return Sent::nothing;
  const ssize_t sent = ::send(socket, bytes_.data() + sent_, bytes_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Sent::some : Sent::failed;
  count = static_cast<size_t>(sent);
  sent_ += count;
  door_->unsent -= static_cast<int64_t>(count);
  const bool is_all = sent_ == bytes_.size();
  if (is_all || sent_ > kMostPending) {
    bytes_.erase(0, sent_);
    sent_ = 0;
  }
  changed_.notify_all();
  return is_all ? Sent::all : Sent::some;
}

bool Channel::is_complete() const {
  const std::lock_guard lock(mutex_);
  return is_complete_;
}

bool Channel::is_finished() const {
  const std::lock_guard lock(mutex_);
  return is_complete_ && sent_ == bytes_.size();
}

bool Channel::closes() const {
  const std::lock_guard lock(mutex_);
  return closes_;
}

void Channel::leave() {
  const std::lock_guard lock(mutex_);
  is_gone_ = true;
  changed_.notify_all();
}

Responder::Responder(std::shared_ptr<Channel> channel, const HttpRequest& request)
    : channel_(std::move(channel)),
      is_http10_(request.is_http10),
      is_head_(request.method == "HEAD"),
      keeps_alive_(request.keeps_alive) {}

Responder::~Responder() {
  if (!channel_ || is_finished_) return;
  if (is_started_) {
    channel_->append({}, true, true);  // without the last chunk: the client sees that the body is incomplete
    return;
  }
  keeps_alive_ = false;
  send({.status = 500, .body = std::move(failure_body_)});
}

void Responder::begin(HttpResponse& response, std::optional<size_t> length) {
  is_started_ = true;
  if (notice_) notice_(response.status);
  if (!length && is_http10_) keeps_alive_ = false;
  if (response.status >= 400) keeps_alive_ = false;
  std::ranges::move(headers_, std::back_inserter(response.headers));
  const std::string head =
      response_head(response, {.length = length, .is_http10 = is_http10_, .closes = !keeps_alive_});
  channel_->append(head, false, !keeps_alive_);
}

void Responder::send(HttpResponse response) {
  if (is_started_) return;
  begin(response, response.body.size());
  is_finished_ = true;
  if (response.body.size() >= kMostPending && !channel_->wait_for_room(kMostPending)) return;
  channel_->append(is_head_ ? std::string_view() : response.body, true, !keeps_alive_);
}

void Responder::start(HttpResponse response) {
  if (is_started_) return;
  begin(response, std::nullopt);
  if (!response.body.empty()) piece(response.body);
}

bool Responder::piece(std::string_view bytes) {
  if (is_head_ || bytes.empty()) return !is_gone();
  if (is_http10_) return channel_->append(bytes, false, false);
  char size[20];
  const int digits = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  std::string chunk;
  chunk.reserve(bytes.size() + 24);
  chunk.append(size, static_cast<size_t>(digits)).append(bytes).append("\r\n");
  return channel_->append(chunk, false, false);
}

bool Responder::write(std::string_view bytes) { return piece(bytes) && channel_->unsent() <= kMostPending; }

bool Responder::write_patiently(std::string_view bytes) {
  return piece(bytes) && channel_->wait_for_room(kMostPending);
}

void Responder::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  channel_->append(is_head_ || is_http10_ ? std::string_view() : "0\r\n\r\n", true, false);
}

}  // namespace attend
