#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace attend::text {

/// GPT-2's spelling of bytes as visible characters: printable ones of Latin-1 stand for themselves, the others for the
/// code points from 256 on (a blank is Ġ, a new line Ċ).
std::string spelled_bytes(std::string_view bytes);
/// The bytes of a spelling, or nothing if it has other characters.
std::optional<std::string> bytes_of_spelling(std::string_view text);
/// How one byte is spelt.
const std::string& byte_spelling(unsigned char byte);

}  // namespace attend::text
