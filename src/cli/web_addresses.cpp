#include "cli/web_addresses.h"

#include <algorithm>
#include <cctype>

#include "cli/command_line.h"
#include "io/printable.h"

namespace attend::cli {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_');
  });
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
bool is_host(const std::string& text) {
  if (!text.starts_with('[')) return is_name(text);
  return text.size() > 4 && text.ends_with(']') &&
         std::ranges::all_of(text.substr(1, text.size() - 2),
                             [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
}

}  // namespace

std::string web_origin(const std::string& text) {
  std::string origin = lower_case(text);
  if (origin == "*" || origin == "null") return origin;
  if (origin.ends_with('/')) origin.pop_back();
  const size_t scheme_end = origin.find("://");
  const std::string scheme = origin.substr(0, scheme_end);
  std::string host = scheme_end == std::string::npos ? "" : origin.substr(scheme_end + 3), port;
  const size_t colon = host.find(':', host.starts_with('[') ? std::min(host.find(']'), host.size()) : 0);
  if (colon != std::string::npos) {
    port = host.substr(colon);
    host.resize(colon);
  }
  const bool is_port =
      port.empty() || (port.size() > 1 && port.size() <= 6 &&
                       std::ranges::all_of(port.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
  if (!is_name(scheme) || !is_host(host) || !is_port) {
    throw UsageError("--cors-origin: expected *, or an origin like https://app.example or http://localhost:3000, got " +
                     in_quotes(text));
  }
  const bool is_usual = (scheme == "https" && port == ":443") || (scheme == "http" && port == ":80");
  return scheme + "://" + host + (is_usual ? "" : port);
}

std::string web_host(const std::string& text) {
  const std::string host = lower_case(text);
  if (is_host(host)) return host;
  throw UsageError("--server-name: expected a host name like api.example.org, without scheme and port, got " +
                   in_quotes(text));
}

}  // namespace attend::cli
