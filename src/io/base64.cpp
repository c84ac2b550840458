#include "io/base64.h"

#include <algorithm>
#include <cstdint>

namespace attend {

void append_base64(std::string& out, std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t n = 0; n < 3; ++n) word = word << 8 | (n < count ? std::to_integer<uint32_t>(bytes[i + n]) : 0);
    for (size_t n = 0; n < 4; ++n) out += n <= count ? kDigits[word >> (18 - 6 * n) & 63] : '=';
  }
}

}  // namespace attend
