#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace attend {

struct RequestLimits {
  size_t head = 32 << 10;          ///< bytes of the request line and the headers
  size_t target = 8 << 10;         ///< bytes of the path and the query
  size_t body = size_t{16} << 20;  ///< bytes
};

/// The status and the message of a refused request.
struct Refusal {
  int status = 0;
  std::string why;
};

/// Assembles requests from bytes that arrive in pieces of any size. Untrusted input; never throws except bad_alloc.
/// A refused request ends the parser: the connection must be closed, because the bytes that follow may be its body.
class RequestParser {
 public:
  /// `check` sees the head of each request before its body is read, and may refuse it.
  using Check = std::function<std::optional<Refusal>(const HttpRequest&)>;
  enum class State { head, body, complete, refused };

  explicit RequestParser(const RequestLimits& limits = {}, Check check = {})
      : limits_(limits), check_(std::move(check)) {}

  /// Adds received bytes. The bytes after a complete request are kept for the next one.
  State push(std::string_view bytes);
  State state() const { return state_; }
  /// The complete request. The parser then continues with the next one.
  HttpRequest take();
  /// Drops an incomplete request and returns what is known of its head.
  HttpRequest abandon();
  const Refusal& refusal() const { return refusal_; }  ///< in state refused
  size_t buffered() const { return bytes_.size(); }    ///< bytes in memory
  /// True once, if the client waits for permission to send the body of a request that is not refused.
  bool take_expectation();

 private:
  State advance();
  State refuse(int status, std::string why);
  std::optional<Refusal> read_head(std::string_view head);
  std::optional<Refusal> read_request_line(std::string_view line);
  std::optional<Refusal> read_header(std::string_view line);
  std::optional<Refusal> read_body_length();

  RequestLimits limits_;
  Check check_;
  State state_ = State::head;
  std::string bytes_;
  size_t searched_ = 0;  // number of bytes known not to hold the end of the head
  HttpRequest request_;
  std::string authority_;  // host and port of a target in absolute form
  Refusal refusal_;
  bool expects_ = false;
  bool is_after_line_ = false;  // an empty line before the request was ignored
};

}  // namespace attend
