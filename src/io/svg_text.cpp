#include "io/svg_text.h"

#include <cstdint>

#include "io/printable.h"

namespace attend {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// U+FFFE and U+FFFF are valid UTF-8, but XML does not allow them.
bool is_noncharacter(std::string_view bytes) { return bytes == "\xef\xbf\xbe" || bytes == "\xef\xbf\xbf"; }

size_t character_bytes(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

void append_escaped(std::string& out, std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  if (character == "<")
    out += "&lt;";
  else if (character == ">")
    out += "&gt;";
  else if (character == "&")
    out += "&amp;";
  else if (character == "\"")
    out += "&quot;";
  else if (byte < 0x20 || byte == 0x7f || is_noncharacter(character))
    out += kReplacement;
  else
    out += character;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    for (size_t at = 0; at < valid;) {
      const size_t bytes = character_bytes(static_cast<unsigned char>(text[at]));
      append_escaped(out, text.substr(at, bytes));
      at += bytes;
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += kReplacement;
    text.remove_prefix(1);
  }
  return out;
}

double text_width(std::string_view text) {
  double width = 0;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (std::string_view("mwMW@%").find(character) != std::string_view::npos)
      width += 0.9;
    else if (byte < 0x80)
      width += byte >= 'A' && byte <= 'Z' ? 0.68 : 0.56;
    else if (byte >= 0xe3)  // lead bytes of U+3000 and above: full width
      width += 1;
    else if (byte >= 0xc2)
      width += 0.6;
  }
  return width;
}

}  // namespace attend
