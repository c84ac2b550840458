#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "attend/serve/server.h"
#include "serve/http/request_parser.h"

namespace attend {

/// Decides by its head whether a request is answered.
class Admission {
 public:
  Admission(const ServerOptions& options, bool has_page, bool has_models);

  std::optional<Refusal> check(const HttpRequest& head) const;
  /// A client of LibreTranslate sends its key as the field 'api_key' of /translate, which check() lets pass. Moves such
  /// a key to the header of the request. Refuses a request without a valid key.
  std::optional<Refusal> check_body(HttpRequest& request) const;
  /// The headers of every response to this request.
  std::vector<HttpHeader> headers(const HttpRequest& head) const;
  /// The response to a refused request. `head` may be empty.
  HttpResponse refuse(const HttpRequest& head, const Refusal& refusal) const;
  /// Whether the request is for the page rather than for the models.
  bool is_for_page(const HttpRequest& head) const;
  void close() { is_closed_ = true; }  ///< from now on, requests get status 503

 private:
  bool is_allowed_origin(std::string_view origin) const;
  /// Why a request is refused that comes from a page of another origin, or through a host name that is not ours.
  std::optional<std::string> objection(const HttpRequest& head) const;
  bool is_own(const std::string& host, const std::string& origin) const;
  bool needs_key(const HttpRequest& head) const;
  bool has_key(const HttpRequest& head) const;

  const ServerOptions& options_;
  bool has_page_, has_models_;
  std::atomic<bool> is_closed_{false};
};

/// Compares in a time that depends only on the length of `given`.
bool is_same_secret(std::string_view given, std::string_view secret);

}  // namespace attend
