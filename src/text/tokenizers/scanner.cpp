#include "text/tokenizers/scanner.h"

#include <array>
#include <memory>

#include "text/unicode.h"

namespace attend::text {
namespace {

enum class Kind : uint8_t { letter, number, space, other };

Kind kind_from_tables(char32_t code) {
  if (is_letter(code)) return Kind::letter;
  if (is_number(code)) return Kind::number;
  return is_space(code) ? Kind::space : Kind::other;
}

/// The kinds of all characters of the Basic Multilingual Plane, looked up in ICU once.
const std::array<Kind, 65536>& basic_plane() {
  static const auto table = [] {
    auto made = std::make_unique<std::array<Kind, 65536>>();
    for (char32_t code = 0; code < made->size(); ++code) (*made)[code] = kind_from_tables(code);
    return made;
  }();
  return *table;
}

/// A character of the text. Length 0 marks the end of the text.
struct Character {
  char32_t code = 0;
  Kind kind = Kind::space;
  uint8_t length = 0;
  bool is(Kind other) const { return length > 0 && kind == other; }
  bool is_line_end() const { return length > 0 && (code == '\r' || code == '\n'); }
};

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), kinds_(basic_plane()) {}

  Character at(size_t position) const {
    if (position >= text_.size()) return {};
    const auto lead = static_cast<unsigned char>(text_[position]);
    if (lead < 0x80) return {lead, kinds_[lead], 1};
    size_t end = position;
    const char32_t code = next_code_point(text_, end);
    const Kind kind = code < kinds_.size() ? kinds_[code] : kind_from_tables(code);
    return {code, kind, static_cast<uint8_t>(end - position)};
  }
  /// The end of the run of characters of this kind that starts at `position`.
  size_t end_of_run(size_t position, Kind kind) const {
    for (;;) {
      while (position < text_.size() && static_cast<signed char>(text_[position]) >= 0) {
        if (kinds_[static_cast<unsigned char>(text_[position])] != kind) return position;
        ++position;
      }
      const Character next = at(position);
      if (!next.is(kind)) return position;
      position += next.length;
    }
  }
  size_t end_of_line_ends(size_t position) const {
    while (position < text_.size() && (text_[position] == '\r' || text_[position] == '\n')) ++position;
    return position;
  }

  /// Length of the contraction 's 't 'm 'd 're 've 'll at `position`, which holds an apostrophe; 0 if there is none.
  /// With any_case, ſ (U+017F) counts as an s.
  size_t contraction(size_t position, bool any_case) const {
    const auto letter = [&](size_t at) -> int {
      if (at >= text_.size()) return 0;
      const char c = text_[at];
      return any_case && c >= 'A' && c <= 'Z' ? c + 32 : c;
    };
    const int first = letter(position + 1), second = letter(position + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
    return any_case && text_.substr(position + 1).starts_with("\u017f") ? 3 : 0;
  }

  /// \s+(?!\S)|\s+ : the whitespace up to the end of the text, or all but its last character, or a single one.
  size_t end_of_blanks(size_t position) const {
    const size_t end = end_of_run(position, Kind::space);
    if (end == text_.size()) return end;
    size_t last = end - 1;
    while ((static_cast<unsigned char>(text_[last]) & 0xc0u) == 0x80u) --last;
    return last > position ? last : end;
  }
  /// \s*[\r\n]+ : the whitespace up to its last line end; `position` if it has none.
  size_t end_of_last_line_end(size_t position) const {
    for (size_t end = end_of_run(position, Kind::space); end > position; --end) {
      if (text_[end - 1] == '\r' || text_[end - 1] == '\n') return end;
    }
    return position;
  }

 private:
  std::string_view text_;
  const std::array<Kind, 65536>& kinds_;
};

size_t next_gpt2(const Cursor& text, size_t at) {
  const Character first = text.at(at);
  if (first.code == '\'') {
    if (const size_t length = text.contraction(at, false)) return at + length;
  }
  if (first.kind != Kind::space) return text.end_of_run(at + first.length, first.kind);
  const Character second = text.at(at + 1);
  const bool blank_before = first.code == ' ' && second.length > 0 && second.kind != Kind::space;
  return blank_before ? text.end_of_run(at + 1 + second.length, second.kind) : text.end_of_blanks(at);
}

size_t next_cl100k(const Cursor& text, size_t at, const Scanner& options) {
  const Character first = text.at(at);
  if (first.code == '\'') {
    if (const size_t length = text.contraction(at, true)) return at + length;
  }
  if (first.kind == Kind::letter) return text.end_of_run(at + first.length, Kind::letter);
  if (first.kind == Kind::number) {
    for (int digits = 0; digits < options.most_digits && text.at(at).is(Kind::number); ++digits) {
      at += text.at(at).length;
    }
    return at;
  }
  const size_t behind = at + first.length;
  const Character second = text.at(behind);
  if (!first.is_line_end() && second.is(Kind::letter)) return text.end_of_run(behind, Kind::letter);
  if (first.kind == Kind::other) return text.end_of_line_ends(text.end_of_run(behind, Kind::other));
  if ((options.any_blank_before || first.code == ' ') && second.is(Kind::other)) {
    return text.end_of_line_ends(text.end_of_run(behind, Kind::other));
  }
  const size_t lines = text.end_of_last_line_end(at);
  return lines > at ? lines : text.end_of_blanks(at);
}

}  // namespace

std::optional<Scanner> Scanner::for_pattern(std::string_view expression) {
  if (expression == kGpt2Pattern) return Scanner{};
  for (const int digits : {3, 1}) {
    for (const bool any_blank : {false, true}) {
      std::string candidate = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
      candidate += digits == 3 ? "{1,3}|" : "|";
      candidate += any_blank ? R"(\s?)" : " ?";
      candidate += R"([^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
      if (expression == candidate) return Scanner{Family::cl100k, digits, any_blank};
    }
  }
  return std::nullopt;
}

void Scanner::scan(Piece piece, const PieceSink& sink) const {
  const Cursor cursor(piece.text);
  for (size_t at = 0; at < piece.text.size();) {
    const size_t end = family == Family::gpt2 ? next_gpt2(cursor, at) : next_cl100k(cursor, at, *this);
    sink({piece.text.substr(at, end - at), piece.at_start && at == 0});
    at = end;
  }
}

}  // namespace attend::text
