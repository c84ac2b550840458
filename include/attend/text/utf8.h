#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend {

/// Whether the text is valid UTF-8. Overlong encodings and surrogates are invalid.
bool is_utf8(std::string_view text);

struct RepairedText {
  std::string text;
  int64_t replaced = 0;  ///< number of U+FFFD inserted for invalid UTF-8
};
/// Replaces each invalid UTF-8 sequence by one U+FFFD. Sequences are the maximal subparts that Unicode recommends.
RepairedText repair_utf8(std::string_view text);

/// The code points of UTF-8 text. Throws FormatError if the text is not UTF-8.
std::u32string code_points(std::string_view text);
/// Appends a code point in UTF-8. Throws ShapeError for a surrogate or a number above U+10FFFF.
void append_utf8(std::string& out, char32_t code);
std::string to_utf8(std::u32string_view text);

/// Whether the text has only Unicode white space, which includes the ideographic space.
bool is_blank(std::string_view text);
/// Unicode lower case, independent of the locale. A sigma at the end of a word becomes ς. Throws FormatError if the
/// text is not UTF-8.
std::string lower_case(std::string_view text);

}  // namespace attend
