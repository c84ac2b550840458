#pragma once

#include <string>
#include <string_view>

namespace attend {

/// Text as XML may hold it: <, >, & and quotes escaped; control characters and what is not UTF-8 as U+FFFD.
std::string xml_text(std::string_view text);

/// How wide the text will be, roughly, in units of the font's size: fonts differ, so leave room.
double text_width(std::string_view text);

}  // namespace attend
