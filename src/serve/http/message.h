#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Requests and responses of HTTP/1.1.
namespace attend {

struct HttpHeader {
  std::string name, value;  ///< the name of a received header is in lower case
};

struct HttpRequest {
  std::string method, target;                ///< target: path and query, as sent
  std::string path;                          ///< URL-decoded
  std::map<std::string, std::string> query;  ///< URL-decoded; the first value of each name
  std::vector<HttpHeader> headers;
  std::string body;
  std::string client;         ///< IP address of the sender
  bool is_http10 = false;     ///< HTTP/1.0: no chunks
  bool keeps_alive = true;    ///< the client may send another request on the same connection
  size_t content_length = 0;  ///< length of the body

  size_t count(std::string_view name) const;
  bool has(std::string_view name) const { return count(name) > 0; }
  /// The value of the first header with this name, in lower case; "" if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
  std::vector<HttpHeader> headers{};
};

/// The head of a response. Without `length`, the body is sent in chunks, or to an HTTP/1.0 client until the connection
/// ends.
struct HeadOptions {
  std::optional<size_t> length{};
  bool is_http10 = false;
  bool closes = false;  ///< the server closes the connection after the response
};
std::string response_head(const HttpResponse& response, const HeadOptions& options);

/// With the letters A to Z in lower case.
std::string ascii_lower(std::string_view text);
/// Without the spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);
/// Decodes %XX, and + as a space if `is_query`. Malformed escapes stay as they are.
std::string url_decoded(std::string_view text, bool is_query);
/// The fields of a query, name=value&…; the first value of each name.
std::map<std::string, std::string> read_form(std::string_view text);

}  // namespace attend
