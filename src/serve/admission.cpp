#include "serve/admission.h"

#include <algorithm>

#include "attend/io/json.h"
#include "io/printable.h"
#include "serve/host_name.h"
#include "serve/request_fields.h"

namespace attend {
namespace {

/// A page of this server may be opened by a link on another site. Such a request has no side effects, and the other
/// site cannot read the response.
bool opens_page(const HttpRequest& head) {
  return head.method == "GET" && head.header("sec-fetch-mode") == "navigate" &&
         (head.path == "/" || head.path.starts_with("/view"));
}

bool is_page_path(std::string_view path) {
  return path == "/" || path == "/favicon.ico" || path.starts_with("/view") || path.starts_with("/api/");
}

bool is_preflight(const HttpRequest& head) {
  return head.method == "OPTIONS" && head.has("access-control-request-method");
}

std::string foreign_page(std::string_view origin, bool is_for_page) {
  const std::string pages = origin.empty() ? "other web sites" : "web pages of " + in_quotes(origin);
  const std::string own =
      "if a proxy serves attend's own page, configure the proxy to forward the Host header, and give attend serve "
      "the host with --server-name";
  if (is_for_page) return "requests from " + pages + " are refused; " + own;
  return "requests from " + pages + " are refused; --cors-origin of attend serve allows an origin; " + own;
}

constexpr const char* kNoKey = "expected a valid API key in the header 'Authorization: Bearer KEY'";

bool may_have_key_in_body(const HttpRequest& head) {
  return head.method == "POST" && head.path == "/translate" && !head.has("authorization");
}

}  // namespace

bool is_same_secret(std::string_view given, std::string_view secret) {
  unsigned different = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return different == 0 && !secret.empty();
}

Admission::Admission(const ServerOptions& options, bool has_page, bool has_models)
    : options_(options), has_page_(has_page && (options.api_keys.empty() || !has_models)), has_models_(has_models) {}

bool Admission::is_for_page(const HttpRequest& head) const {
  return has_page_ && (!has_models_ || is_page_path(head.path));
}

bool Admission::is_allowed_origin(std::string_view origin) const {
  return !origin.empty() && std::ranges::any_of(options_.cors_origins, [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

bool Admission::is_own(const std::string& host, const std::string& origin) const {
  if (is_own_request(host, origin, options_.host)) return true;
  return std::ranges::any_of(options_.names, [&](const std::string& name) {
    // A proxy in front may speak TLS.
    const bool is_proxied = host_name(host) == name && origin == "https://" + host;
    return is_own_request(host, is_proxied ? "" : origin, name);
  });
}

std::optional<std::string> Admission::objection(const HttpRequest& head) const {
  if (head.count("host") > 1 || head.count("origin") > 1) return "expected one header Host and at most one Origin";
  const std::string host(head.header("host")), origin(head.header("origin"));
  const std::string_view site = head.header("sec-fetch-site");
  const bool is_page = is_for_page(head), is_shared = !is_page && is_allowed_origin(origin);
  // HTTP/1.0 has no header Host. Browsers send it.
  if (head.is_http10 && !head.has("host") && origin.empty() && site.empty() && !is_page) return std::nullopt;
  if (host.empty()) return "expected a header Host";
  const bool is_foreign = (site == "cross-site" || site == "same-site") && !is_shared && !opens_page(head);
  if (is_foreign) return foreign_page(origin, is_page);
  const std::string checked = is_shared ? "" : origin;
  if (is_own(host, checked)) return std::nullopt;
  if (is_own(host, "")) return foreign_page(origin, is_page);
  // A request with a key cannot be forged by a page that has none.
  if (!options_.api_keys.empty() && !is_page && checked.empty()) return std::nullopt;
  return "the host name " + in_quotes(host_name(host)) +
         " is not this server's; --server-name of attend serve adds a name";
}

bool Admission::has_key(const HttpRequest& head) const {
  const std::string_view given = head.header("authorization");
  const size_t blank = std::min(given.find(' '), given.size());
  if (ascii_lower(given.substr(0, blank)) != "bearer") return false;
  const std::string_view key = trimmed(given.substr(blank));
  bool is_known = false;
  for (const std::string& known : options_.api_keys) is_known |= is_same_secret(key, known);
  return is_known;
}

bool Admission::needs_key(const HttpRequest& head) const {
  return has_models_ && !is_for_page(head) && !options_.api_keys.empty() && head.path != "/health";
}

std::optional<Refusal> Admission::check_body(HttpRequest& request) const {
  if (!needs_key(request) || has_key(request)) return std::nullopt;
  try {
    if (const auto key = RequestFields::json_or_form(request).text("api_key")) {
      request.headers.push_back({"authorization", "Bearer " + *key});
    }
  } catch (const RequestError&) {  // a body without a key that can be read
  }
  if (!has_key(request)) return Refusal{401, std::string(kNoKey) + ", or in the field 'api_key'"};
  return std::nullopt;
}

std::optional<Refusal> Admission::check(const HttpRequest& head) const {
  if (const auto why = objection(head)) return Refusal{403, *why};
  if (is_closed_) return Refusal{503, "the server is stopping"};
  if (is_preflight(head) && !is_for_page(head)) return std::nullopt;
  if (head.method != "GET" && head.method != "POST" && head.method != "HEAD") {
    return Refusal{405, "only GET and POST are answered"};
  }
  if (head.has("range")) return Refusal{416, "range requests are not supported"};
  if (needs_key(head) && !has_key(head) && !may_have_key_in_body(head)) return Refusal{401, kNoKey};
  const bool is_multipart = ascii_lower(head.header("content-type")).starts_with("multipart/");
  if (is_multipart && (!has_models_ || head.path != "/translate")) {
    return Refusal{415, "the body must not be multipart"};
  }
  return std::nullopt;
}

std::vector<HttpHeader> Admission::headers(const HttpRequest& head) const {
  std::vector<HttpHeader> result{{"X-Content-Type-Options", "nosniff"},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"Accept-Ranges", "none"},
                                 {"Cache-Control", "no-store"}};
  const std::string_view origin = head.header("origin");
  if (is_for_page(head) || !is_allowed_origin(origin)) {
    result.push_back({"Cross-Origin-Resource-Policy", "same-origin"});
    return result;
  }
  result.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  result.push_back({"Access-Control-Expose-Headers", "Retry-After, x-request-id"});
  result.push_back({"Vary", "Origin"});
  if (is_preflight(head)) {
    result.push_back({"Access-Control-Allow-Methods", "GET, POST"});
    const std::string_view wanted = head.header("access-control-request-headers");
    if (!wanted.empty()) result.push_back({"Access-Control-Allow-Headers", std::string(wanted)});
    result.push_back({"Access-Control-Max-Age", "600"});
  }
  return result;
}

HttpResponse Admission::refuse(const HttpRequest& head, const Refusal& refusal) const {
  HttpResponse response{.status = refusal.status, .body = Json{{"error", refusal.why}}.dump()};
  if (has_models_ && !is_for_page(head)) {
    response.body = error_response(head.path, RequestError(refusal.status, refusal.why)).body;
  }
  response.headers = headers(head);
  if (refusal.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  if (refusal.status == 503) response.headers.push_back({"Retry-After", "5"});
  return response;
}

}  // namespace attend
