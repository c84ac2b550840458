#include "io/printable.h"

#include <cstdint>

namespace attend {
namespace {

constexpr size_t kLongest = 80;

/// Length in bytes of the first character of `text`, or 0 if it is not valid UTF-8.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const uint32_t smallest = length == 4 ? 0x10000u : length == 3 ? 0x800u : 0x80u;
  const bool surrogate = code >= 0xd800u && code <= 0xdfffu;
  return code >= smallest && code <= 0x10ffffu && !surrogate ? length : 0;
}

void append_escaped(std::string& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  while (!text.empty() && out.size() <= kLongest) {
    const size_t length = character_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7f)
      append_escaped(out, byte);
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + (text.empty() ? "'" : "…'");
}

}  // namespace attend
