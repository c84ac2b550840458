#pragma once

#include <string>
#include <string_view>

namespace attend {

/// `text` in single quotes for a one-line message: control characters escaped, long text cut. Accepts arbitrary bytes.
std::string in_quotes(std::string_view text);

/// Length of the longest prefix of `text` that is valid UTF-8 (shortest forms only, no surrogates).
size_t valid_utf8_prefix(std::string_view text);

}  // namespace attend
