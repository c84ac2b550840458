#pragma once

#include <string>
#include <string_view>

namespace attend {

/// Escapes text for XML: <, >, & and quotes become entities; control characters and invalid UTF-8 become U+FFFD.
std::string xml_text(std::string_view text);

/// Approximate width of the text in units of the font size. Fonts differ, so leave some room.
double text_width(std::string_view text);

}  // namespace attend
