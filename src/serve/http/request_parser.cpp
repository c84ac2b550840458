#include "serve/http/request_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace attend {
namespace {

constexpr std::string_view kEnd = "\r\n\r\n";

/// The characters of methods and header names (RFC 9110, section 5.6.2).
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string::npos;
  });
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return (c >= ' ' && c != 127) || c == '\t'; });
}

Refusal malformed() { return {400, "the request is malformed"}; }

/// Whether a comma-separated header lists a word.
bool lists(const HttpRequest& request, std::string_view name, std::string_view word) {
  return std::ranges::any_of(request.headers, [&](const HttpHeader& header) {
    if (header.name != name) return false;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      if (ascii_lower(trimmed(one)) == word) return true;
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
    return false;
  });
}

}  // namespace

RequestParser::State RequestParser::push(std::string_view bytes) {
  if (state_ == State::refused) return state_;
  bytes_.append(bytes);
  return advance();
}

RequestParser::State RequestParser::advance() {
  if (state_ == State::head) {
    // An empty line before a request is ignored (RFC 9112, section 2.2).
    if (!is_after_line_ && searched_ == 0 && bytes_.starts_with("\r\n")) {
      bytes_.erase(0, 2);
      is_after_line_ = true;
    }
    const size_t end = bytes_.find(kEnd, searched_);
    if (std::min(end, bytes_.size()) > limits_.head) return refuse(431, "the request's head is longer than 32 KiB");
    if (end == std::string::npos) {
      searched_ = bytes_.size() < kEnd.size() ? 0 : bytes_.size() - kEnd.size() + 1;
      return state_;
    }
    auto wrong = read_head(std::string_view(bytes_).substr(0, end + 2));
    bytes_.erase(0, end + kEnd.size());
    searched_ = 0;
    if (!wrong && check_) wrong = check_(request_);
    if (!wrong) wrong = read_body_length();
    if (wrong) return refuse(wrong->status, std::move(wrong->why));
    state_ = State::body;
    expects_ = bytes_.size() < request_.content_length && ascii_lower(request_.header("expect")) == "100-continue";
  }
  if (state_ == State::body && bytes_.size() >= request_.content_length) {
    std::string rest = bytes_.substr(request_.content_length);
    bytes_.resize(request_.content_length);
    request_.body = std::exchange(bytes_, std::move(rest));
    state_ = State::complete;
  }
  return state_;
}

RequestParser::State RequestParser::refuse(int status, std::string why) {
  refusal_ = {status, std::move(why)};
  bytes_ = {};
  return state_ = State::refused;
}

HttpRequest RequestParser::abandon() {
  bytes_ = {};
  state_ = State::refused;
  return std::exchange(request_, {});
}

HttpRequest RequestParser::take() {
  HttpRequest result = std::exchange(request_, {});
  state_ = State::head;
  expects_ = is_after_line_ = false;
  advance();
  return result;
}

bool RequestParser::take_expectation() { return state_ == State::body && std::exchange(expects_, false); }

std::optional<Refusal> RequestParser::read_head(std::string_view head) {
  request_ = {};
  authority_.clear();
  const size_t line_end = head.find("\r\n");
  if (auto wrong = read_request_line(head.substr(0, line_end))) return wrong;
  for (head.remove_prefix(line_end + 2); !head.empty();) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    if (auto wrong = read_header(line)) return wrong;
    head.remove_prefix(line.size() + 2);
  }
  if (!authority_.empty()) {  // it takes the place of the header
    const auto host = std::ranges::find(request_.headers, "host", &HttpHeader::name);
    if (host == request_.headers.end()) {
      request_.headers.push_back({"host", authority_});
    } else {
      host->value = authority_;
    }
  }
  request_.keeps_alive =
      request_.is_http10 ? lists(request_, "connection", "keep-alive") : !lists(request_, "connection", "close");
  return std::nullopt;
}

std::optional<Refusal> RequestParser::read_request_line(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return malformed();
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (!is_token(method) || !is_printable(target) || target.find(' ') != std::string_view::npos) return malformed();
  if (target.size() > limits_.target) return Refusal{414, "the address is too long"};
  if (!version.starts_with("HTTP/")) return malformed();
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return Refusal{505, "expected HTTP/1.1 or HTTP/1.0"};
  // The absolute form, http://host/path, which clients of proxies send (RFC 9112, section 3.2.2).
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (ascii_lower(target.substr(0, scheme.size())) != scheme) continue;
    target.remove_prefix(scheme.size());
    authority_ = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(authority_.size());
    if (authority_.empty() || authority_.find_first_of("@#\\") != std::string::npos) return malformed();
    break;
  }
  if (!target.starts_with('/') && (authority_.empty() || !(target.empty() || target[0] == '?'))) return malformed();
  request_.method = method;
  request_.target = target.starts_with('/') ? std::string(target) : "/" + std::string(target);
  target = request_.target;
  request_.is_http10 = version == "HTTP/1.0";
  const size_t question = std::min(target.find('?'), target.size());
  request_.path = url_decoded(target.substr(0, question), false);
  request_.query = read_form(target.substr(std::min(question + 1, target.size())));
  return std::nullopt;
}

std::optional<Refusal> RequestParser::read_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return malformed();
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (!is_token(name) || !is_printable(value)) return malformed();
  request_.headers.push_back({ascii_lower(name), std::string(value)});
  return std::nullopt;
}

/// A compressed or chunked body may be longer than any declared length, so these are refused.
std::optional<Refusal> RequestParser::read_body_length() {
  if (request_.has("content-encoding")) return Refusal{415, "the body must not be compressed"};
  const size_t lengths = request_.count("content-length");
  if (request_.has("transfer-encoding") || (request_.method == "POST" && lengths == 0)) {
    return Refusal{411, "the request needs a Content-Length"};
  }
  if (lengths == 0) return std::nullopt;
  const std::string_view length = request_.header("content-length");
  const bool is_number = std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (length.empty() || !is_number || lengths > 1) return Refusal{400, "Content-Length is not a number"};
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), request_.content_length);
  if (error != std::errc() || request_.content_length > limits_.body) return Refusal{413, "the request is too large"};
  return std::nullopt;
}

}  // namespace attend
