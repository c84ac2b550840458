#include "serve/admission.h"

#include <algorithm>

#include "attend/io/json.h"

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

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 503:
      return "server_error";
    default:
      return "invalid_request_error";
  }
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

/// Whether a request comes from a page of another origin, or through a host name that is not ours.
bool Admission::is_foreign(const HttpRequest& head) const {
  if (head.count("host") > 1 || head.count("origin") > 1) return true;
  const std::string host(head.header("host")), origin(head.header("origin"));
  const bool may_share = !is_for_page(head);
  const bool is_shared = may_share && is_allowed_origin(origin);
  const std::string_view site = head.header("sec-fetch-site");
  if ((site == "cross-site" || site == "same-site") && !is_shared && !opens_page(head)) return true;
  const std::string checked = is_shared ? "" : origin;
  const auto is_own = [&](const std::string& name) { return is_own_request(host, checked, name); };
  if (is_own(options_.host) || std::ranges::any_of(options_.names, is_own)) return false;
  // A request with a key cannot be forged by a page that has none.
  return options_.api_keys.empty() || !may_share || !checked.empty() || host.empty();
}

bool Admission::has_key(const HttpRequest& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = head.header("authorization");
  if (given.starts_with(kBearer)) given.remove_prefix(kBearer.size());
  bool is_known = false;
  for (const std::string& key : options_.api_keys) is_known |= is_same_secret(given, key);
  return is_known;
}

std::optional<Refusal> Admission::check(const HttpRequest& head) const {
  if (is_foreign(head)) return Refusal{403, "this page answers only its own address on this machine"};
  if (is_closed_) return Refusal{503, "the server is stopping"};
  if (is_preflight(head) && !is_for_page(head)) return std::nullopt;
  if (head.method != "GET" && head.method != "POST" && head.method != "HEAD") {
    return Refusal{405, "only GET and POST are answered"};
  }
  if (head.has("range")) return Refusal{416, "range requests are not supported"};
  if (has_models_ && !is_for_page(head) && !options_.api_keys.empty() && head.path != "/health" && !has_key(head)) {
    return Refusal{401, "expected a valid API key in the header 'Authorization: Bearer KEY'"};
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
  const bool has_head = !head.method.empty();
  HttpResponse response{.status = refusal.status};
  if (has_head) response.headers = headers(head);
  if (refusal.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  if (refusal.status == 503) response.headers.push_back({"Retry-After", "5"});
  if (has_models_ && has_head && !is_for_page(head)) {
    response.body =
        Json{{"error",
              {{"message", refusal.why}, {"type", error_type(refusal.status)}, {"param", nullptr}, {"code", nullptr}}}}
            .dump();
  } else {
    response.body = Json{{"error", refusal.why}}.dump();
  }
  return response;
}

}  // namespace attend
