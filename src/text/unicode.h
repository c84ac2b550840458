#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "attend/text/utf8.h"

namespace attend::text {

/// Throws FormatError unless the text is UTF-8 and at most 2 GiB long.
void require_utf8(std::string_view text);

/// Number of leading ASCII bytes.
size_t ascii_prefix(std::string_view text);
inline bool is_ascii(std::string_view text) { return ascii_prefix(text) == text.size(); }

/// The code point at `at` of valid UTF-8. Advances `at` past it.
char32_t next_code_point(std::string_view text, size_t& at);

/// Calls visit(code point, its bytes) for each code point of valid UTF-8.
template <class Visit>
void for_each_code_point(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(text, at);
    visit(code, text.substr(begin, at - begin));
  }
}

/// Length in bytes of the character that begins with this byte of valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

bool is_space(char32_t code);        ///< Unicode's White_Space, as matched by \s
bool is_word(char32_t code);         ///< as matched by \w
bool is_letter(char32_t code);       ///< general category L
bool is_number(char32_t code);       ///< general category N
bool is_punctuation(char32_t code);  ///< general category P, and the ASCII characters of category S
bool is_mark(char32_t code);         ///< general category M
bool is_nonspacing_mark(char32_t code);
bool is_other(char32_t code);  ///< control characters, format characters and private use

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, NormalForm form);
/// Converts to lower case, each code point independently: Σ at the end of a word becomes σ, not ς.
std::string lowercased(std::string_view text);

/// The code points for which keep(code) is true.
template <class Keep>
std::string filtered(std::string_view text, Keep&& keep) {
  std::string out;
  out.reserve(text.size());
  for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    if (keep(code)) out += bytes;
  });
  return out;
}

/// The text with every occurrence of `from` (not empty) replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace attend::text
