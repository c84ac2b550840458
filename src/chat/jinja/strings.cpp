#include "chat/jinja/strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/unicode.h"

namespace attend::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

char32_t code_at(std::string_view text, size_t at) { return text::next_code_point(text, at); }
bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// Offset of the code point before `at`.
size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && is_continuation(text[at]));
  return at;
}

/// The failure function of Knuth, Morris and Pratt.
std::vector<uint32_t> borders(std::string_view part) {
  std::vector<uint32_t> border(part.size(), 0);
  for (size_t i = 1, k = 0; i < part.size(); ++i) {
    while (k > 0 && part[i] != part[k]) k = border[k - 1];
    if (part[i] == part[k]) ++k;
    border[i] = static_cast<uint32_t>(k);
  }
  return border;
}

size_t find_long(std::string_view text, std::string_view part, size_t from) {
  const std::vector<uint32_t> border = borders(part);
  for (size_t i = from, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != part[k]) k = border[k - 1];
    if (text[i] == part[k]) ++k;
    if (k == part.size()) return i + 1 - k;
  }
  return kNone;
}

/// Length of the line break at `at`, in bytes; 0 if there is none.
size_t line_break(std::string_view text, size_t at) {
  if (text[at] == '\r') return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
  const char32_t code = code_at(text, at);
  const bool is_break = (code >= 0x0a && code <= 0x0c) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
                        code == 0x2028 || code == 0x2029;
  return is_break ? text::utf8_length(text[at]) : 0;
}

}  // namespace

int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); });
}
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  text::for_each_code_point(text, [&](char32_t, std::string_view bytes) { result.push_back(bytes); });
  return result;
}
size_t byte_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += text::utf8_length(text[at]);
  return at;
}

bool is_python_space(char32_t code) { return (code >= 0x1c && code <= 0x1f) || text::is_space(code); }
size_t leading_spaces(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_python_space(code_at(text, at))) at += text::utf8_length(text[at]);
  return at;
}
std::string_view without_trailing_spaces(std::string_view text) { return strip(text, std::nullopt, Side::right); }

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side) {
  std::u32string set = chars ? code_points(*chars) : std::u32string();
  std::ranges::sort(set);
  const auto is_removed = [&](size_t at) {
    const char32_t code = code_at(text, at);
    return chars ? std::ranges::binary_search(set, code) : is_python_space(code);
  };
  if (side != Side::right) {
    size_t at = 0;
    while (at < text.size() && is_removed(at)) at += text::utf8_length(text[at]);
    text.remove_prefix(at);
  }
  if (side != Side::left) {
    while (!text.empty() && is_removed(previous(text, text.size()))) text = text.substr(0, previous(text, text.size()));
  }
  return text;
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  constexpr size_t kShort = 32;
  if (from > text.size()) return kNone;
  return part.size() <= kShort ? text.find(part, from) : find_long(text, part, from);
}
size_t find_last_text(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend());
  const size_t found = find_text(backwards, std::string(part.rbegin(), part.rend()));
  return found == kNone ? kNone : text.size() - found - part.size();
}
int64_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = find_text(text, part, at)) != kNone; at += part.size()) ++count;
  return count;
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to, int64_t count,
                         Budget& budget) {
  std::string out;
  size_t at = 0;
  const auto append = [&](std::string_view part) {
    budget.check(out.size() + part.size());
    out += part;
  };
  for (; count != 0; --count) {
    if (from.empty()) {
      append(to);
      if (at == text.size()) break;
      append(text.substr(at, text::utf8_length(text[at])));
      at += text::utf8_length(text[at]);
    } else {
      const size_t found = find_text(text, from, at);
      if (found == kNone) break;
      append(text.substr(at, found - at));
      append(to);
      at = found + from.size();
    }
  }
  append(text.substr(at));
  return out;
}

Parts split(std::string_view text, std::optional<std::string_view> separator, int64_t most) {
  Parts parts;
  if (!separator) {
    for (text.remove_prefix(leading_spaces(text)); !text.empty(); text.remove_prefix(leading_spaces(text))) {
      if (most >= 0 && static_cast<int64_t>(parts.size()) == most) return parts.push_back(text), parts;
      size_t at = 0;
      while (at < text.size() && !is_python_space(code_at(text, at))) at += text::utf8_length(text[at]);
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at);
    }
    return parts;
  }
  if (separator->empty()) fail("empty separator");
  size_t at = 0;
  for (size_t found; most != 0 && (found = find_text(text, *separator, at)) != kNone; --most) {
    parts.push_back(text.substr(at, found - at));
    at = found + separator->size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

Parts rsplit(std::string_view text, std::optional<std::string_view> separator, int64_t most) {
  if (most < 0) return split(text, separator, most);
  Parts parts;
  if (!separator) {
    for (text = without_trailing_spaces(text); !text.empty(); text = without_trailing_spaces(text)) {
      if (static_cast<int64_t>(parts.size()) == most) {
        parts.push_back(text);
        break;
      }
      size_t at = text.size();
      while (at > 0 && !is_python_space(code_at(text, previous(text, at)))) at = previous(text, at);
      parts.push_back(text.substr(at));
      text = text.substr(0, at);
    }
  } else {
    const std::string backwards(text.rbegin(), text.rend());
    for (const std::string_view part : split(backwards, std::string(separator->rbegin(), separator->rend()), most)) {
      const auto begin = static_cast<size_t>(part.data() - backwards.data());
      parts.push_back(text.substr(text.size() - begin - part.size(), part.size()));
    }
  }
  std::ranges::reverse(parts);
  return parts;
}

Parts split_lines(std::string_view text, bool keep_ends) {
  Parts lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = line_break(text, at);
    if (length > 0) lines.push_back(text.substr(begin, at - begin + (keep_ends ? length : 0)));
    at += length > 0 ? length : text::utf8_length(text[at]);
    if (length > 0) begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string shortest(buffer, end);
  const size_t e = shortest.find('e');
  const int exponent = std::stoi(shortest.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return shortest;  // "1e-07": to_chars, too, writes at least two digits
  char plain[64];
  std::string text(plain, std::to_chars(plain, plain + sizeof plain, value, std::chars_format::fixed).ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

namespace {

/// Digits as Python reads them: without spaces around, single underscores between digits removed.
std::optional<std::string> plain_digits(std::string_view text) {
  text = strip(text, std::nullopt, Side::both);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i - 1])) &&
                            std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (text[i] != '_')
      out += text[i];
    else if (!is_between)
      return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  auto digits = plain_digits(text);
  if (!digits || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  std::string_view rest = *digits;
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  const auto take_prefix = [&](char letter, int64_t meaning) {
    if (rest.size() < 2 || rest[0] != '0' || (rest[1] | 32) != letter || (base != 0 && base != meaning)) return;
    rest.remove_prefix(2);
    base = meaning;
  };
  take_prefix('x', 16);
  take_prefix('o', 8);
  take_prefix('b', 2);
  if (base == 0) base = 10;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, static_cast<int>(base));
  if (rest.empty() || rest[0] == '-' || end != rest.data() + rest.size()) return std::nullopt;
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) + (is_negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || value > most) fail("integers beyond 64 bits are not supported");
  return is_negative ? static_cast<int64_t>(~value + 1) : static_cast<int64_t>(value);
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = plain_digits(text);
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest.find('(') != kNone) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || digits->starts_with("+-")) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
  return value;
}

}  // namespace attend::jinja
