#include "serve/waiting_room.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <optional>

#include "attend/base/error.h"

namespace attend {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestHead = 32 << 10, kSlowest = 128 << 10;  // bytes; bytes per second
constexpr size_t kMostRequestBytes = size_t{256} << 20;
constexpr int64_t kMostReserved = int64_t{512} << 20;
constexpr milliseconds kPollInterval{100}, kLinger{1000};
constexpr std::string_view kEnd = "\r\n\r\n", kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// All values of a header. `head` and `name` must be in lower case.
std::vector<std::string> values_of(const std::string& head, const std::string& name) {
  std::vector<std::string> values;
  const std::string key = "\r\n" + name + ":";
  for (size_t at = head.find(key); at != std::string::npos; at = head.find(key, at + 2)) {
    const size_t begin = head.find_first_not_of(" \t", at + key.size());
    const size_t end = head.find("\r\n", at + 2);
    values.push_back(begin < end ? head.substr(begin, end - begin) : "");
    while (!values.back().empty() && (values.back().back() == ' ' || values.back().back() == '\t')) {
      values.back().pop_back();
    }
  }
  return values;
}

/// The declared length of the body. 0 if there is no body, or if the request will be refused because of its head.
size_t body_length(const std::string& head, size_t largest) {
  const std::vector<std::string> lengths = values_of(head, "content-length");
  if (!head.starts_with("post ") || lengths.size() != 1 || !values_of(head, "transfer-encoding").empty()) return 0;
  const std::string& length = lengths[0];
  const bool is_number = std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_number || length.empty() || length.size() > 18) return 0;
  const size_t bytes = std::stoull(length);
  return bytes <= largest ? bytes : 0;
}

bool is_blocked() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

void Deadline::moved(size_t bytes) { end_ += std::chrono::microseconds(bytes * 1'000'000 / kSlowest); }

milliseconds Deadline::left() const {
  return std::chrono::duration_cast<milliseconds>(end_ - std::chrono::steady_clock::now());
}

WaitingRoom::WaitingRoom(std::function<void(Arrival)> answer, const Options& options)
    : answer_(std::move(answer)), options_(options), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require<Error>(wake_ >= 0, "cannot create an eventfd: too many open files");
  thread_ = std::thread([this] { run(); });
}

WaitingRoom::~WaitingRoom() {
  finish();
  ::close(wake_);
}

void WaitingRoom::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void WaitingRoom::enter(socket_t socket) {
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back({.socket = socket});
  }
  wake();
}

bool WaitingRoom::reserve(size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  if (reserved_.fetch_add(count) + count <= kMostReserved) return true;
  reserved_ -= count;
  return false;
}

void WaitingRoom::leave(socket_t socket, std::string rest) {
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back({.socket = socket, .phase = Phase::sending, .bytes = std::move(rest)});
  }
  wake();
}

void WaitingRoom::close() {
  {
    const std::lock_guard lock(handing_over_);
    is_closed_ = true;
  }
  wake();
}

void WaitingRoom::finish() {
  close();
  is_finishing_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void WaitingRoom::run() {
  std::optional<std::chrono::steady_clock::time_point> end;
  std::vector<Guest*> ready;
  for (;;) {
    const bool is_finishing = is_finishing_;  // read before seating newcomers: once it is set, no more arrive
    seat_newcomers();
    if (is_finishing && !end) end = std::chrono::steady_clock::now() + kLinger;
    const bool is_busy = wait(ready);
    for (Guest* guest : ready) look_after(*guest);
    const bool is_end = end && (!is_busy || guests_.empty() || std::chrono::steady_clock::now() > *end);
    for (Guest& guest : guests_) {
      if (is_end || (is_closed_ && (guest.phase == Phase::head || guest.phase == Phase::body))) guest.is_over = true;
      if (!guest.is_over && guest.deadline.left().count() <= 0) expire(guest);
      if (!guest.is_over) continue;
      if (guest.phase == Phase::sending) reserved_ -= static_cast<int64_t>(guest.bytes.size());
      if (guest.socket != INVALID_SOCKET) ::close(guest.socket);
    }
    guests_.remove_if([](const Guest& guest) { return guest.is_over; });
    if (is_end) return;
  }
}

void WaitingRoom::seat_newcomers() {
  {
    const std::lock_guard lock(mutex_);
    guests_.splice(guests_.end(), newcomers_);
  }
  make_room();
}

void WaitingRoom::make_room() {
  size_t bytes = 0, count = guests_.size();
  for (const Guest& guest : guests_) bytes += guest.phase == Phase::sending ? 0 : guest.bytes.size();
  for (Guest& guest : guests_) {
    if (count <= options_.most_guests && bytes <= kMostRequestBytes) return;
    const bool is_answer = guest.phase == Phase::sending;
    if (is_answer && count <= options_.most_guests) continue;
    guest.is_over = true;
    --count;
    bytes -= is_answer ? 0 : guest.bytes.size();
  }
}

bool WaitingRoom::wait(std::vector<Guest*>& ready) {
  std::vector<pollfd> files{{.fd = wake_, .events = POLLIN, .revents = 0}};
  milliseconds patience = !is_finishing_ ? milliseconds(60'000) : guests_.empty() ? milliseconds(0) : kPollInterval;
  for (const Guest& guest : guests_) {
    const short events = guest.phase == Phase::sending ? POLLOUT : POLLIN;
    files.push_back({.fd = guest.is_over ? -1 : guest.socket, .events = events, .revents = 0});
    patience = std::min(patience, guest.is_over ? milliseconds(0) : guest.deadline.left() + milliseconds(1));
  }
  const int count = poll(files.data(), files.size(), static_cast<int>(std::max<int64_t>(patience.count(), 0)));
  ready.clear();
  if (count <= 0) return count < 0;  // interrupted by a signal: poll again
  uint64_t calls = 0;
  [[maybe_unused]] const ssize_t read = ::read(wake_, &calls, sizeof calls);
  size_t at = 1;
  for (Guest& guest : guests_) {
    if (files[at++].revents != 0) ready.push_back(&guest);
  }
  return true;
}

void WaitingRoom::look_after(Guest& guest) {
  try {
    switch (guest.phase) {
      case Phase::head:
      case Phase::body:
        return receive(guest);
      case Phase::sending:
        return send(guest);
      case Phase::leaving:
        return say_farewell(guest);
    }
  } catch (const std::exception&) {  // out of memory, for example: end this connection, not the server
    guest.is_over = true;
  }
}

void WaitingRoom::receive(Guest& guest) {
  char buffer[1 << 16];
  const ssize_t count = recv(guest.socket, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count < 0) {
    guest.is_over = !is_blocked();
    return;
  }
  if (count == 0) {
    if (guest.phase == Phase::body) return hand_over(guest);  // will be refused: the body is too short
    guest.is_over = true;
    return;
  }
  const size_t before = guest.bytes.size();
  guest.bytes.append(buffer, static_cast<size_t>(count));
  guest.deadline.moved(static_cast<size_t>(count));
  if (guest.phase == Phase::head) return take_head(guest, before);
  if (guest.bytes.size() >= guest.wanted) hand_over(guest);
}

void WaitingRoom::take_head(Guest& guest, size_t from) {
  const size_t end = guest.bytes.find(kEnd, from < kEnd.size() ? 0 : from - kEnd.size());
  if (std::min(end, guest.bytes.size()) > kLongestHead) {
    return refuse(guest, "431 Request Header Fields Too Large", "the request's head is longer than 32 KiB");
  }
  if (end == std::string::npos) return;
  std::string head = guest.bytes.substr(0, end + 2);
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  guest.wanted = end + kEnd.size() + body_length(head, options_.largest_body);
  if (guest.bytes.size() >= guest.wanted) return hand_over(guest);
  guest.phase = Phase::body;
  guest.deadline = {};
  if (values_of(head, "expect") == std::vector<std::string>{"100-continue"}) {
    ::send(guest.socket, kContinue.data(), kContinue.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

void WaitingRoom::hand_over(Guest& guest) {
  guest.is_over = true;
  const std::lock_guard lock(handing_over_);
  if (is_closed_) return;
  answer_({.socket = std::exchange(guest.socket, INVALID_SOCKET), .bytes = std::move(guest.bytes)});
}

void WaitingRoom::refuse(Guest& guest, const std::string& status, const std::string& why) {
  const std::string body = "{\"error\":\"" + why + "\"}";
  guest.bytes = "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body;
  reserved_ += static_cast<int64_t>(guest.bytes.size());
  guest.phase = Phase::sending;
  guest.deadline = {};
}

void WaitingRoom::send(Guest& guest) {
  if (guest.done < guest.bytes.size()) {
    const ssize_t count = ::send(guest.socket, guest.bytes.data() + guest.done, guest.bytes.size() - guest.done,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      guest.is_over = !is_blocked();
      return;
    }
    guest.done += static_cast<size_t>(count);
    guest.deadline.moved(static_cast<size_t>(count));
    if (guest.done < guest.bytes.size()) return;
  }
  // Closing a socket with unread bytes resets the connection, and the client could lose a response it has not read yet.
  shutdown(guest.socket, SHUT_WR);
  reserved_ -= static_cast<int64_t>(guest.bytes.size());
  guest.bytes.clear();
  guest.phase = Phase::leaving;
  guest.deadline = Deadline(kLinger);
}

void WaitingRoom::say_farewell(Guest& guest) {
  char dropped[1 << 16];
  const ssize_t count = recv(guest.socket, dropped, sizeof dropped, MSG_DONTWAIT);
  guest.is_over = count == 0 || (count < 0 && !is_blocked());
}

void WaitingRoom::expire(Guest& guest) {
  const bool is_request = guest.phase == Phase::body || (guest.phase == Phase::head && !guest.bytes.empty());
  if (!is_request) {
    guest.is_over = true;
    return;
  }
  refuse(guest, "408 Request Timeout", "the request took too long to arrive");
}

}  // namespace attend
