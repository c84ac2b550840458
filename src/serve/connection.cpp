#include "serve/connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace attend {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestHead = 32 << 10, kSlowest = 128 << 10;  // bytes; bytes a second
constexpr milliseconds kGlance{100}, kFarewell{1000};
constexpr std::string_view kEnd = "\r\n\r\n";

}  // namespace

void Deadline::moved(size_t bytes) { end_ += std::chrono::microseconds(bytes * 1'000'000 / kSlowest); }

milliseconds Deadline::left() const {
  return std::chrono::duration_cast<milliseconds>(end_ - std::chrono::steady_clock::now());
}

/// Closing a socket with unread bytes resets it, and the other side then loses an answer that it has not read yet.
Connection::~Connection() {
  shutdown(socket_, SHUT_WR);
  const auto end = std::chrono::steady_clock::now() + kFarewell;
  char dropped[16384];
  for (pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0}; std::chrono::steady_clock::now() < end;) {
    const int count = poll(&ready, 1, static_cast<int>(kGlance.count()));
    if (count == 0 && listening_ == INVALID_SOCKET) break;
    if (count > 0 && recv(socket_, dropped, sizeof dropped, MSG_DONTWAIT) <= 0) break;
  }
  close(socket_);
}

/// Looks up now and then: a server that stops waits for nobody.
bool Connection::wait(short events, const Deadline& deadline) const {
  for (pollfd ready{.fd = socket_, .events = events, .revents = 0};;) {
    const milliseconds left = deadline.left();
    if (left.count() <= 0) return false;
    const int count = poll(&ready, 1, static_cast<int>(std::min(left, kGlance).count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (count == 0 && listening_ == INVALID_SOCKET) return false;
  }
}

ssize_t Connection::receive(char* to, size_t size) {
  while (wait(POLLIN, reading_)) {
    const ssize_t count = recv(socket_, to, size, MSG_DONTWAIT);
    if (count >= 0) return reading_.moved(static_cast<size_t>(count)), count;
    if (errno != EINTR && errno != EAGAIN) break;
  }
  return -1;
}

Connection::Head Connection::read_head() {
  char buffer[4096];
  while (head_.size() < kLongestHead) {
    const ssize_t count = receive(buffer, sizeof buffer);
    if (count == 0) return Head::none;
    if (count < 0) return head_.empty() || reading_.left().count() > 0 ? Head::none : Head::late;
    const size_t from = head_.size() < kEnd.size() ? 0 : head_.size() - kEnd.size();
    head_.append(buffer, static_cast<size_t>(count));
    if (head_.find(kEnd, from) == std::string::npos) continue;
    reading_ = {};
    return Head::whole;
  }
  return Head::too_long;
}

bool Connection::is_readable() const { return given_ < head_.size() || wait(POLLIN, reading_); }

bool Connection::is_writable() const { return wait(POLLOUT, {}); }

ssize_t Connection::read(char* to, size_t size) {
  if (given_ == head_.size()) return receive(to, size);
  const size_t count = std::min(size, head_.size() - given_);
  std::memcpy(to, head_.data() + given_, count);
  given_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  Deadline writing;
  for (size_t sent = 0; sent < size;) {
    if (!wait(POLLOUT, writing)) return -1;
    const ssize_t count = send(socket_, from + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return -1;
    if (count <= 0) continue;
    sent += static_cast<size_t>(count);
    writing.moved(static_cast<size_t>(count));
  }
  return static_cast<ssize_t>(size);
}

}  // namespace attend
