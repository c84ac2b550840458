#include "serve/http/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "attend/base/error.h"

namespace attend {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinger{1000}, kScanInterval{100};
constexpr uint64_t kListener = 0, kDoor = 1;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool is_blocked_error() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::string address_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  return text;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

int listening_socket(const addrinfo& address) {
  const int file = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (file < 0) return -1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(file, address.ai_addr, address.ai_addrlen) == 0 && ::listen(file, SOMAXCONN) == 0) return file;
  close(file);
  return -1;
}

}  // namespace

HttpServer::HttpServer(Callbacks callbacks, const HttpOptions& options)
    : callbacks_(std::move(callbacks)), options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  require<Error>(epoll_ >= 0, "cannot create an epoll: too many open files");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kDoor}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, door_->file(), &event);
}

HttpServer::~HttpServer() {
  stop();
  while (!connections_.empty()) drop(connections_.begin());
  if (listener_ >= 0) close(listener_);
  close(epoll_);
}

int HttpServer::listen(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return 0;
  for (const addrinfo* one = found; one != nullptr && listener_ < 0; one = one->ai_next) {
    listener_ = listening_socket(*one);
  }
  freeaddrinfo(found);
  return listener_ < 0 ? 0 : port_of(listener_);
}

void HttpServer::start() {
  thread_ = std::thread([this] { run(); });
}

void HttpServer::stop() {
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  door_->wake();
  thread_.join();
}

void HttpServer::run() {
  std::array<epoll_event, 256> events{};
  std::optional<Deadline> end;
  for (;;) {
    if (is_stopping_ && !end) {
      end = Deadline(kLinger);
      if (is_listening_) epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
      is_listening_ = true;  // never again
    }
    if (!is_listening_) {
      epoll_event event{.events = EPOLLIN, .data = {.u64 = kListener}};
      epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event);
      is_listening_ = true;
    }
    const int patience = connections_.empty() && !end ? -1 : static_cast<int>(kScanInterval.count());
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), patience);
    for (const uint64_t id : door_->take_calls()) {
      look_after(id, &HttpServer::flush);
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kListener) {
        accept_some();
      } else if (event.data.u64 != kDoor) {
        look_after(event.data.u64, &HttpServer::ready, event.events);
      }
    }
    scan();
    if (!end) continue;
    const bool is_over = end->is_over(Deadline::Clock::now());
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto one = it++;
      if (is_over || one->second.phase == Phase::reading) drop(one);
    }
    if (connections_.empty()) return;
  }
}

void HttpServer::accept_some() {
  constexpr int kAtOnce = 64;  // then the other connections have their turn
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int file = accept4(listener_, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file < 0) {
      const bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (!is_full) return;
      if (make_room()) continue;
      epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);  // until the next round
      is_listening_ = false;
      std::this_thread::sleep_for(milliseconds(1));
      return;
    }
    const int yes = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connections_.size() >= options_.most_connections && !make_room()) {
      close(file);
      continue;
    }
    const uint64_t id = next_id_++;
    Connection& connection = connections_.try_emplace(id, file, *this).first->second;
    connection.client = address_of(address);
    watch(id, connection);
  }
}

/// Closes the oldest connection that waits for its client. False if there is none.
bool HttpServer::make_room() {
  const auto oldest =
      std::ranges::find_if(connections_, [](const auto& entry) { return entry.second.phase != Phase::serving; });
  if (oldest == connections_.end()) return false;
  drop(oldest);
  return true;
}

void HttpServer::watch(uint64_t id, Connection& connection) {
  uint32_t wanted = 0;
  if (!connection.is_half_closed) wanted |= EPOLLRDHUP;
  if (connection.phase != Phase::serving) wanted |= EPOLLIN;
  if (connection.is_blocked) wanted |= EPOLLOUT;
  if (wanted == connection.events) return;
  epoll_event event{.events = wanted, .data = {.u64 = id}};
  epoll_ctl(epoll_, connection.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, connection.socket, &event);
  connection.events = wanted;
}

void HttpServer::drop(Connections::iterator it) {
  Connection& connection = it->second;
  if (connection.phase == Phase::reading) request_bytes_ -= connection.parser.buffered();
  if (connection.channel) {
    connection.channel->leave();
    --running_;
  }
  close(connection.socket);
  connections_.erase(it);
}

template <class... Arguments>
void HttpServer::look_after(uint64_t id, void (HttpServer::*action)(Connections::iterator, Arguments...),
                            Arguments... arguments) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  try {
    (this->*action)(it, arguments...);
  } catch (const std::exception&) {  // out of memory, for example: end this connection, not the server
    if (const auto again = connections_.find(id); again != connections_.end()) drop(again);
  }
}

void HttpServer::ready(Connections::iterator it, uint32_t events) {
  Connection& connection = it->second;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return drop(it);
  if (connection.phase != Phase::serving) return receive(it);
  if ((events & EPOLLRDHUP) != 0) {
    // The client has hung up, unless it reads the end of a complete response.
    if (!connection.channel->is_complete()) return drop(it);
    connection.is_half_closed = true;
  }
  flush(it);
}

void HttpServer::receive(Connections::iterator it) {
  Connection& connection = it->second;
  char buffer[1 << 16];
  const ssize_t count = recv(connection.socket, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count < 0 && is_blocked_error()) return;
  if (count <= 0) return drop(it);
  if (connection.phase == Phase::leaving) return;  // dropped: closing a socket with unread bytes resets it
  const size_t before = connection.parser.buffered();
  const bool is_new = before == 0 && connection.parser.state() == RequestParser::State::head;
  if (is_new) connection.deadline = {};
  const auto state_before = connection.parser.state();
  const auto state = connection.parser.push({buffer, static_cast<size_t>(count)});
  connection.deadline.moved(static_cast<size_t>(count));
  if (state == RequestParser::State::body && state_before == RequestParser::State::head) connection.deadline = {};
  request_bytes_ += connection.parser.buffered() - before;
  if (connection.parser.take_expectation()) {
    ::send(connection.socket, kContinue.data(), kContinue.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  next_request(it);
  while (request_bytes_ > options_.most_request_bytes && make_room()) {
  }
}

/// Hands over the request if it is complete.
void HttpServer::next_request(Connections::iterator it) {
  Connection& connection = it->second;
  const auto state = connection.parser.state();
  if (state == RequestParser::State::refused) {
    return refuse(it, Refusal(connection.parser.refusal()));
  }
  if (state != RequestParser::State::complete) return watch(it->first, connection);
  request_bytes_ -= connection.parser.buffered();
  HttpRequest request = connection.parser.take();
  request.client = connection.client;
  Responder responder = serve(it, request);
  callbacks_.handle(std::move(request), std::move(responder));
}

Responder HttpServer::serve(Connections::iterator it, const HttpRequest& request) {
  Connection& connection = it->second;
  connection.phase = Phase::serving;
  connection.deadline = Deadline::never();
  connection.channel = std::make_shared<Channel>(door_, it->first);
  ++running_;
  watch(it->first, connection);
  return {connection.channel, request};
}

void HttpServer::refuse(Connections::iterator it, const Refusal& refusal) {
  request_bytes_ -= it->second.parser.buffered();
  HttpRequest request = it->second.parser.abandon();
  request.keeps_alive = false;
  serve(it, request).send(callbacks_.refuse(request, refusal));
}

void HttpServer::flush(Connections::iterator it) {
  Connection& connection = it->second;
  if (connection.phase != Phase::serving) return;
  size_t count = 0;
  const bool was_blocked = connection.is_blocked;
  const Channel::Sent sent = connection.channel->send_to(connection.socket, count);
  if (sent == Channel::Sent::failed) return drop(it);
  connection.is_blocked = sent == Channel::Sent::some;
  if (connection.is_blocked) {
    if (!was_blocked) connection.deadline = {};
    connection.deadline.moved(count);
  } else {
    connection.deadline = Deadline::never();
    if (connection.channel->is_finished()) return finished(it);
  }
  watch(it->first, connection);
}

/// The whole response was sent.
void HttpServer::finished(Connections::iterator it) {
  Connection& connection = it->second;
  const bool closes = connection.channel->closes() || is_stopping_;
  connection.channel.reset();
  connection.is_blocked = false;
  --running_;
  if (!closes) {
    connection.phase = Phase::reading;
    request_bytes_ += connection.parser.buffered();
    connection.deadline = connection.parser.buffered() > 0 ? Deadline() : Deadline(options_.idle);
    return next_request(it);
  }
  // If a socket is closed before all received bytes are read, the kernel resets the connection, and the client may lose
  // the end of the response.
  shutdown(connection.socket, SHUT_WR);
  connection.phase = Phase::leaving;
  connection.deadline = Deadline(kLinger);
  watch(it->first, connection);
}

void HttpServer::scan() {
  const auto now = Deadline::Clock::now();
  if (now - last_scan_ < kScanInterval) return;
  last_scan_ = now;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto one = it++;
    if (one->second.deadline.is_over(now)) expire(one);
  }
}

void HttpServer::expire(Connections::iterator it) {
  const Connection& connection = it->second;
  const bool is_request = connection.phase == Phase::reading &&
                          (connection.parser.buffered() > 0 || connection.parser.state() == RequestParser::State::body);
  if (!is_request) return drop(it);
  refuse(it, {408, "the request took too long to arrive"});
}

}  // namespace attend
