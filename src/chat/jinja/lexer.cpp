#include "chat/jinja/lexer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "attend/base/error.h"
#include "chat/jinja/strings.h"
#include "text/unicode.h"

namespace attend::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

/// \r\n and \r become \n, and one newline at the end is dropped.
std::string normalized_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized_lines(source)) {}

  std::vector<Token> run() {
    try {
      while (at_ < source_.size()) data();
    } catch (const FormatError& error) {
      throw_error<FormatError>("line ", line_, ": ", error.what());
    }
    put(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool at(std::string_view text) const { return rest().starts_with(text); }
  void put(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }
  /// Moves on by `count` bytes, counting lines.
  void skip(size_t count) {
    line_ += static_cast<int>(std::ranges::count(rest().substr(0, count), '\n'));
    at_ += count;
    is_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }
  void skip_spaces() { skip(leading_spaces(rest())); }

  /// The next tag at or after the current position: its offset, or npos.
  size_t next_tag() const {
    for (size_t found = at_; (found = source_.find('{', found)) != kNone; ++found) {
      const char second = found + 1 < source_.size() ? source_[found + 1] : '\0';
      if (second == '{' || second == '%' || second == '#') return found;
    }
    return kNone;
  }

  /// Text before a tag with the given sign after its opening: `-` removes all spaces; otherwise the indentation of a
  /// line that starts with a block or a comment is removed.
  std::string_view before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return without_trailing_spaces(text);
    if (sign == '+' || is_print) return text;
    const size_t newline = text.rfind('\n');
    if (newline == kNone && !is_line_start_) return text;
    const size_t begin = newline == kNone ? 0 : newline + 1;
    return leading_spaces(text.substr(begin)) == text.size() - begin ? text.substr(0, begin) : text;
  }

  void data() {
    const size_t found = next_tag();
    const std::string_view text = std::string_view(source_).substr(at_, found == kNone ? kNone : found - at_);
    if (found == kNone) {
      put(TokenKind::data, std::string(text));
      return skip(text.size());
    }
    const char kind = source_[found + 1], third = found + 2 < source_.size() ? source_[found + 2] : '\0';
    const char sign = third == '-' || third == '+' ? third : '\0';
    const std::string_view kept = before_tag(text, sign, kind == '{');
    if (!kept.empty()) put(TokenKind::data, std::string(kept));
    skip(text.size());
    const size_t opening = sign != '\0' ? 3 : 2;
    if (kind == '#') {
      skip(opening);
      comment();
    } else if (kind == '%' && raw_begin(opening) > 0) {
      skip(raw_begin(opening));
      raw();
    } else {
      put(kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, "");
      skip(opening);
      code(kind == '{');
    }
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == kNone) fail("Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    skip(end + 2 - at_);
    after_block(sign);
  }
  /// White space after the end of a block or comment.
  void after_block(char sign) {
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && at("\n")) {
      skip(1);
    }
  }

  /// Length of `{% raw %}` at the current position after `opening` bytes; 0 if there is another tag.
  size_t raw_begin(size_t opening) const { return named_tag(at_, opening, "raw", false); }
  size_t named_tag(size_t begin, size_t opening, std::string_view name, bool may_keep) const {
    size_t end = begin + opening;
    end += leading_spaces(std::string_view(source_).substr(end));
    if (!std::string_view(source_).substr(end).starts_with(name)) return 0;
    end += name.size();
    end += leading_spaces(std::string_view(source_).substr(end));
    const std::string_view tail = std::string_view(source_).substr(end);
    if (tail.starts_with("-%}")) return end + 3 + leading_spaces(tail.substr(3)) - begin;
    if (may_keep && tail.starts_with("+%}")) return end + 3 - begin;
    return tail.starts_with("%}") ? end + 2 - begin : 0;
  }
  void raw() {
    for (size_t found = at_; (found = source_.find("{%", found)) != kNone; ++found) {
      const char third = found + 2 < source_.size() ? source_[found + 2] : '\0';
      const char sign = third == '-' || third == '+' ? third : '\0';
      const size_t length = named_tag(found, sign != '\0' ? 3 : 2, "endraw", true);
      if (length == 0) continue;
      const std::string_view text = std::string_view(source_).substr(at_, found - at_);
      const std::string_view kept = before_tag(text, sign, false);
      if (!kept.empty()) put(TokenKind::data, std::string(kept));
      skip(text.size() + length);
      const std::string_view tag = std::string_view(source_).substr(found, length);
      const bool has_sign = tag.find("-%}") != kNone || tag.ends_with("+%}");
      if (!has_sign) after_block('\0');
      return;
    }
    fail("Missing end of raw directive");
  }

  /// The tokens of a tag, up to its end.
  void code(bool is_print) {
    std::string open;  // brackets that are not closed yet
    while (true) {
      if (open.empty() && tag_end(is_print)) return;
      if (const size_t spaces = leading_spaces(rest()); spaces > 0) {
        skip(spaces);
        continue;
      }
      if (at_ == source_.size()) fail("unexpected end of template inside a tag");
      const char c = source_[at_];
      if (is_digit(c)) {
        number();
      } else if (c == '"' || c == '\'') {
        literal();
      } else if (const size_t length = name_length(); length > 0) {
        put(TokenKind::name, std::string(rest().substr(0, length)));
        skip(length);
      } else {
        symbol(open);
      }
    }
  }
  bool tag_end(bool is_print) {
    const std::string_view closing = is_print ? "}}" : "%}";
    const bool has_sign = rest().size() > 2 && rest().substr(1).starts_with(closing);
    const char sign = has_sign && (source_[at_] == '-' || (source_[at_] == '+' && !is_print)) ? source_[at_] : '\0';
    if (sign == '\0' && !at(closing)) return false;
    put(is_print ? TokenKind::print_end : TokenKind::block_end, "");
    skip(sign != '\0' ? 3 : 2);
    if (sign == '-') {
      skip_spaces();
    } else if (!is_print) {
      after_block(sign);
    }
    return true;
  }

  size_t name_length() const {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      const auto code = static_cast<UChar32>(text::next_code_point(source_, next));
      const bool is_part = end == at_ ? code == '_' || u_hasBinaryProperty(code, UCHAR_XID_START)
                                      : u_hasBinaryProperty(code, UCHAR_XID_CONTINUE) != 0;
      if (!is_part) break;
      end = next;
    }
    return end - at_;
  }

  /// Length of digits of a base at `from`, single underscores between them included.
  size_t digits(size_t from, std::string_view allowed) const {
    size_t end = from;
    while (end < source_.size()) {
      const bool is_gap = source_[end] == '_' && end > from && end + 1 < source_.size();
      const char c = is_gap ? source_[end + 1] : source_[end];
      if (allowed.find(c) == kNone) break;
      end += is_gap ? 2 : 1;
    }
    return end - from;
  }
  void number() {
    static constexpr std::string_view kDecimal = "0123456789";
    const char second = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 32) : '\0';
    const std::string_view base = second == 'x' ? "0123456789abcdefABCDEF" : second == 'o' ? "01234567" : "01";
    if (source_[at_] == '0' && (second == 'x' || second == 'o' || second == 'b') && digits(at_ + 2, base) > 0) {
      return integer(2 + digits(at_ + 2, base));
    }
    size_t length = digits(at_, kDecimal);
    const size_t whole = length;
    const auto here = [&](size_t offset) { return at_ + offset < source_.size() ? source_[at_ + offset] : '\0'; };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 is an item of an item
    if (!after_dot && here(length) == '.' && is_digit(here(length + 1)))
      length += 1 + digits(at_ + length + 1, kDecimal);
    if (!after_dot && (here(length) | 32) == 'e') {
      const size_t sign = here(length + 1) == '+' || here(length + 1) == '-' ? 2 : 1;
      if (is_digit(here(length + sign))) length += sign + digits(at_ + length + sign, kDecimal);
    }
    if (length == whole) return integer(length);
    put(TokenKind::real, std::string(rest().substr(0, length)));
    tokens_.back().real = parse_float(rest().substr(0, length)).value_or(0);
    skip(length);
  }
  void integer(size_t length) {
    const auto value = parse_integer(rest().substr(0, length), 0);
    if (!value) fail("malformed number '", rest().substr(0, length), "'");
    put(TokenKind::integer, std::string(rest().substr(0, length)));
    tokens_.back().integer = *value;
    skip(length);
  }

  void literal() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    put(TokenKind::text, unescaped(rest().substr(1, end - at_ - 1)));
    skip(end + 1 - at_);
  }

  void symbol(std::string& open) {
    static constexpr std::array<std::string_view, 7> kDouble{"//", "**", "==", "!=", ">=", "<=", ""};
    size_t length = 1;
    for (const std::string_view pair : kDouble) length = !pair.empty() && at(pair) ? 2 : length;
    const std::string text(rest().substr(0, length));
    if (length == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(text[0]) == kNone) {
      fail("unexpected char ", python_quoted(rest().substr(0, text::utf8_length(text[0]))));
    }
    if (text == "(" || text == "[" || text == "{") {
      open += text == "(" ? ')' : text == "[" ? ']' : '}';
    } else if (text == ")" || text == "]" || text == "}") {
      if (open.empty() || open.back() != text[0]) fail("unexpected '", text, "'");
      open.pop_back();
    }
    put(TokenKind::symbol, text);
    skip(length);
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

/// Reads `count` hexadecimal digits at `at` and appends the character.
void append_hex(std::string_view literal, size_t& at, size_t count, std::string& out) {
  char32_t code = 0;
  for (size_t i = 0; i < count; ++i, ++at) {
    const char c = at < literal.size() ? literal[at] : '\0';
    const char letter = static_cast<char>(c | 32);
    if (!is_digit(c) && !(letter >= 'a' && letter <= 'f')) fail("truncated escape in a string");
    code = code * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : letter - 'a' + 10);
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("a string has an escape that is no character");
  append_utf8(out, code);
}

void append_named(std::string_view literal, size_t& at, std::string& out) {
  const size_t end = literal.find('}', at);
  if (at >= literal.size() || literal[at] != '{' || end == kNone) fail("malformed \\N escape in a string");
  UErrorCode status = U_ZERO_ERROR;
  const UChar32 code =
      u_charFromName(U_EXTENDED_CHAR_NAME, std::string(literal.substr(at + 1, end - at - 1)).c_str(), &status);
  if (U_FAILURE(status)) fail("unknown Unicode character name in a string");
  append_utf8(out, static_cast<char32_t>(code));
  at = end + 1;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string unescaped(std::string_view literal) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 == literal.size()) {
      out += literal[at++];
      continue;
    }
    const char c = literal[at + 1];
    at += 2;
    if (const size_t letter = kLetters.find(c); letter != kNone) {
      out += kMeanings[letter];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_hex(literal, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    } else if (c == 'N') {
      append_named(literal, at, out);
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t end = at - 1;
      for (; end < at + 2 && end < literal.size() && literal[end] >= '0' && literal[end] <= '7'; ++end) {
        code = code * 8 + static_cast<char32_t>(literal[end] - '0');
      }
      append_utf8(out, code);
      at = end;
    } else if (static_cast<signed char>(c) < 0) {  // Jinja escapes other characters first: '\é' is the text \xe9
      --at;
      const auto code = static_cast<unsigned>(text::next_code_point(literal, at));
      std::array<char, 16> escape{};
      std::snprintf(escape.data(), escape.size(),
                    code < 0x100     ? "\\x%02x"
                    : code < 0x10000 ? "\\u%04x"
                                     : "\\U%08x",
                    code);
      out += escape.data();
    } else if (c != '\n') {
      (out += '\\') += c;
    }
  }
  return out;
}

}  // namespace attend::jinja
