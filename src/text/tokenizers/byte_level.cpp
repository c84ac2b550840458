#include "text/tokenizers/byte_level.h"

#include "text/unicode.h"

namespace attend::text {
namespace {

constexpr char32_t kOthers = 256;

struct Table {
  std::array<std::string, 256> spelling;
  std::array<int, 512> byte;  // by code point; -1: represents no byte

  Table() {
    byte.fill(-1);
    char32_t next = kOthers;
    for (char32_t value = 0; value < 256; ++value) {
      const bool printable = (value >= '!' && value <= '~') || (value >= 0xa1 && value != 0xad);
      const char32_t code = printable ? value : next++;
      append_utf8(spelling[value], code);
      byte[code] = static_cast<int>(value);
    }
  }
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

const std::string& byte_spelling(unsigned char byte) { return table().spelling[byte]; }

std::string spelled_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) out += byte_spelling(static_cast<unsigned char>(byte));
  return out;
}

std::optional<std::string> bytes_of_spelling(std::string_view text) {
  const Table& spellings = table();
  std::string out;
  bool all = true;
  for_each_code_point(text, [&](char32_t code, std::string_view) {
    const int byte = code < spellings.byte.size() ? spellings.byte[code] : -1;
    all = all && byte >= 0;
    out += static_cast<char>(byte);
  });
  return all ? std::optional(out) : std::nullopt;
}

}  // namespace attend::text
