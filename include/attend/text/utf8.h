#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend {

/// Whether the text is valid UTF-8: shortest forms only, no surrogates.
bool is_utf8(std::string_view text);

struct RepairedText {
  std::string text;
  int64_t replaced = 0;  ///< how many U+FFFD stand for bytes that were not UTF-8
};
/// Replaces every sequence that is not UTF-8 by one U+FFFD, cut as Unicode recommends (maximal subparts).
RepairedText repair_utf8(std::string_view text);

/// The code points of UTF-8 text. Throws FormatError if it is not.
std::u32string code_points(std::string_view text);
/// Throws ShapeError for a surrogate or a number beyond U+10FFFF.
void append_utf8(std::string& out, char32_t code);
std::string to_utf8(std::u32string_view text);

/// Whether the text has nothing but white space, in Unicode's sense (also the ideographic space).
bool is_blank(std::string_view text);
/// Lower case in Unicode's sense, whatever the locale; a sigma that ends a word becomes ς. Throws FormatError if the
/// text is not UTF-8.
std::string lower_case(std::string_view text);

}  // namespace attend
