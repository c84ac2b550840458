#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Splits UTF-8 text into words (also in Thai or Khmer, which have no spaces between words), single characters of
/// Chinese and Japanese, punctuation marks and emoji. A character is a whole grapheme, with its accents and joiners.
/// White space and invisible characters are removed. Throws FormatError if the text is not UTF-8.
std::vector<std::string> segment(std::string_view text);

/// The characters (graphemes) of UTF-8 text, including white space. Throws FormatError if the text is not UTF-8.
std::vector<std::string> graphemes(std::string_view text);

/// Width of a text in terminal columns: 2 for East Asian wide characters and emoji, 0 for combining marks, else 1.
/// Control characters and invalid bytes count 1, because visible() shows them.
int display_width(std::string_view text);

/// The text in a form that is safe to print on one line: control characters become control pictures (␛), invalid bytes
/// become �, and a combining mark without a base character gets a dotted circle.
std::string visible(std::string_view text);

}  // namespace attend
