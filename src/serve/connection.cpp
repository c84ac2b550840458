#include "serve/connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace attend {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{100};
// Shorter writes, such as the pieces of a stream, wait until the client has taken them. Longer ones go to the waiting
// room.
constexpr size_t kLongAnswer = 64 << 10;

}  // namespace

Connection::~Connection() {
  try {
    room_.leave(request_.socket, std::move(rest_));
  } catch (const std::exception&) {  // no memory left to enter the waiting room
    close(request_.socket);
  }
}

/// Polls in short intervals, so that a server that is stopping does not wait for a slow client.
bool Connection::wait(const Deadline& deadline) const {
  for (pollfd ready{.fd = request_.socket, .events = POLLOUT, .revents = 0};;) {
    const milliseconds left = deadline.left();
    if (left.count() <= 0) return false;
    const int count = poll(&ready, 1, static_cast<int>(std::min(left, kPause).count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (count == 0 && listening_ == INVALID_SOCKET) return false;
  }
}

bool Connection::is_writable() const { return !rest_.empty() || wait({}); }

ssize_t Connection::read(char* to, size_t size) {
  const size_t count = std::min(size, request_.bytes.size() - given_);
  std::memcpy(to, request_.bytes.data() + given_, count);
  given_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  Deadline writing;
  size_t sent = 0;
  while (sent < size && rest_.empty()) {
    const ssize_t count = send(request_.socket, from + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return -1;
    if (count > 0) {
      sent += static_cast<size_t>(count);
      writing.moved(static_cast<size_t>(count));
    } else if (size >= kLongAnswer && room_.reserve(size - sent)) {
      break;
    } else if (!wait(writing)) {
      return -1;
    }
  }
  if (sent == size) return static_cast<ssize_t>(size);
  if (!rest_.empty() && !room_.reserve(size - sent)) return -1;
  rest_.append(from + sent, size - sent);
  return static_cast<ssize_t>(size);
}

}  // namespace attend
