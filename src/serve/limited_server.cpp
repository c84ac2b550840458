#include "serve/limited_server.h"

#include <string>

#include "serve/connection.h"

namespace attend {
namespace {

/// For what httplib never gets to see.
void refuse(Connection& connection, const std::string& status, const std::string& why) {
  const std::string body = "{\"error\":\"" + why + "\"}";
  const std::string answer =
      "HTTP/1.1 " + status +
      "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  connection.write(answer.data(), answer.size());
}

}  // namespace

bool LimitedServer::process_and_close_socket(socket_t socket) try {
  Connection connection(socket, svr_sock_);
  switch (connection.read_head()) {
    case Connection::Head::none:
      return false;
    case Connection::Head::late:
      refuse(connection, "408 Request Timeout", "the request came too slowly");
      return false;
    case Connection::Head::too_long:
      refuse(connection, "431 Request Header Fields Too Large", "the request's head is longer than 32 KiB");
      return false;
    case Connection::Head::whole:
      break;
  }
  bool is_closed = false;
  // httplib gives a range's numbers to content providers unchecked, and would cut the error that refuses it.
  return process_request(connection, true, is_closed, [](httplib::Request& request) { request.ranges.clear(); });
} catch (const std::exception&) {
  return false;  // too little memory, for one: this connection ends, the server does not
}

}  // namespace attend
