#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace attend::text {

/// GPT-2's spelling of bytes as visible characters. Printable characters of Latin-1 represent themselves; other bytes
/// are represented by code points from 256 on (a space is Ġ, a newline Ċ).
std::string spelled_bytes(std::string_view bytes);
/// The bytes of a spelling, or nullopt if it contains other characters.
std::optional<std::string> bytes_of_spelling(std::string_view text);
/// The spelling of one byte.
const std::string& byte_spelling(unsigned char byte);

}  // namespace attend::text
