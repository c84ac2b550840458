#include "serve/http/form.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "attend/base/error.h"
#include "serve/http/message.h"

namespace attend {
namespace {

constexpr size_t kMostFields = 1024;
constexpr std::string_view kLine = "\r\n";

[[noreturn]] void fail(const char* why) { throw FormatError(std::string("the form: ") + why); }

std::string decoded(std::string_view text) {
  for (size_t i = text.find('%'); i != std::string_view::npos; i = text.find('%', i + 3)) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (!is_digit(i + 1) || !is_digit(i + 2)) fail("expected two hexadecimal digits after %");
  }
  return url_decoded(text, true);
}

/// The value of `name=value` or `name="value"` after the first semicolon of a header.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at != std::string_view::npos) {
    at = header.find_first_not_of("; \t", at);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) return std::nullopt;
    const bool is_wanted = ascii_lower(header.substr(at, equals - at)) == name;
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size() && header[at + 1] == '"') ++at;
        value += header[at];
      }
      at = header.find(';', at);
    } else {
      const size_t end = std::min(header.find_first_of("; \t", at), header.size());
      value = header.substr(at, end - at);
      at = header.find(';', end);
    }
    if (is_wanted) return value;
  }
  return std::nullopt;
}

/// The value of a header of a part; "" if it has none.
std::string_view header_of(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find(kLine));
    head.remove_prefix(std::min(line.size() + kLine.size(), head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || ascii_lower(line.substr(0, colon)) != name) continue;
    return line.substr(std::min(line.find_first_not_of(" \t", colon + 1), line.size()));
  }
  return {};
}

FormField read_part(std::string_view part) {
  const size_t end = part.find("\r\n\r\n");
  if (end == std::string_view::npos) fail("a part has no head");
  const std::string_view head = part.substr(0, end);
  const std::string_view disposition = header_of(head, "content-disposition");
  const auto name = parameter(disposition, "name");
  if (!ascii_lower(disposition).starts_with("form-data") || !name) fail("a part has no name");
  if (parameter(disposition, "filename")) fail("files are not supported, only text fields");
  const std::string encoding = ascii_lower(header_of(head, "content-transfer-encoding"));
  if (!encoding.empty() && encoding != "8bit" && encoding != "7bit" && encoding != "binary") {
    fail("parts must not have a Content-Transfer-Encoding");
  }
  return {.name = *name, .value = std::string(part.substr(end + 4))};
}

}  // namespace

std::vector<FormField> read_form_body(std::string_view body) {
  std::vector<FormField> fields;
  while (!body.empty()) {
    const std::string_view one = body.substr(0, body.find('&'));
    body.remove_prefix(std::min(one.size() + 1, body.size()));
    if (one.empty()) continue;
    if (fields.size() == kMostFields) fail("it has more than 1024 fields");
    const size_t equals = std::min(one.find('='), one.size());
    fields.push_back(
        {.name = decoded(one.substr(0, equals)), .value = decoded(one.substr(std::min(equals + 1, one.size())))});
  }
  return fields;
}

std::vector<FormField> read_multipart(std::string_view body, std::string_view content_type) {
  constexpr size_t kLongestBoundary = 70;  // RFC 2046, section 5.1.1
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kLongestBoundary) fail("Content-Type has no boundary");
  const std::string between = "\r\n--" + *boundary;
  std::vector<FormField> fields;
  size_t at = body.starts_with(std::string_view(between).substr(2)) ? between.size() - 2 : std::string_view::npos;
  if (at == std::string_view::npos) {  // text before the first boundary is ignored
    at = body.find(between);
    if (at == std::string_view::npos) fail("the boundary is not in the body");
    at += between.size();
  }
  while (!body.substr(at).starts_with("--")) {
    const size_t line = body.find(kLine, at);
    const size_t end = body.find(between, std::min(line, body.size()));
    if (end == std::string_view::npos) fail("it has no end");
    if (fields.size() == kMostFields) fail("it has more than 1024 fields");
    const size_t begin = std::min(line + kLine.size(), end);
    fields.push_back(read_part(body.substr(begin, end - begin)));
    at = end + between.size();
  }
  return fields;
}

}  // namespace attend
