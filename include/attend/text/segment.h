#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Cuts UTF-8 text as a reader would: words where the script has them (also Thai or Khmer, which write none apart),
/// single characters of Chinese and Japanese, punctuation and emoji on their own. A character is a whole grapheme, with
/// its accents and joiners. Blanks and invisible characters are left out. Throws FormatError if the text is not UTF-8.
std::vector<std::string> segment(std::string_view text);

/// The characters (graphemes) of UTF-8 text, blanks included. Throws FormatError if the text is not UTF-8.
std::vector<std::string> graphemes(std::string_view text);

/// How many columns a terminal gives the text: 2 for East Asian wide characters and emoji, 0 for marks above or below a
/// letter, else 1. Control characters and invalid bytes count 1, as `visible` shows them.
int display_width(std::string_view text);

/// The text as it may safely be printed in one line: control characters as their pictures (␛), invalid bytes as �, and
/// a lone mark on a dotted circle.
std::string visible(std::string_view text);

}  // namespace attend
