#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "attend/serve/server.h"
#include "inspect/inspect_testing.h"

// Sends raw HTTP requests, valid or not.
namespace attend::testing {

/// A connection to a local port.
class Client {
 public:
  explicit Client(int port) : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ADD_FAILURE() << "no server";
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(file_); }

  bool send(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(file_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }
  /// Whether bytes have arrived or the server has closed the connection.
  bool has_answer() const {
    char byte = 0;
    return recv(file_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
  /// The bytes of the next packet.
  std::string receive_some() const {
    char buffer[1 << 16];
    const ssize_t count = recv(file_, buffer, sizeof buffer, 0);
    return {buffer, count > 0 ? static_cast<size_t>(count) : 0};
  }
  void finish() const { shutdown(file_, SHUT_WR); }
  /// Everything received until the server closes the connection or sends nothing for ten seconds.
  std::string receive() const {
    std::string answer;
    char buffer[4096];
    for (ssize_t count; (count = recv(file_, buffer, sizeof buffer, 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(count));
    }
    return answer;
  }

 private:
  int file_;
};

inline std::string exchange(int port, const std::string& bytes, bool says_it_is_all = false) {
  const Client client(port);
  client.send(bytes);
  if (says_it_is_all) client.finish();
  return client.receive();
}

/// A server with a small model.
struct Served {
  Api api;
  Server server{api, {.port = 0}};
  explicit Served(ApiOptions options = {.version = "1"}) : api({tiny_inspected("gpt")}, std::move(options)) {
    server.start();
  }

  std::string host() const { return "Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"; }
  std::string request(const std::string& line, const std::string& headers = {}, const std::string& body = {}) {
    std::string text = line + " HTTP/1.1\r\nConnection: close\r\n";
    text += headers.empty() ? host() : headers;
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return exchange(server.port(), text + "\r\n" + body);
  }
};

inline int status_of(const std::string& answer) { return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0; }
inline std::string body_of(const std::string& answer) {
  const size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

}  // namespace attend::testing
