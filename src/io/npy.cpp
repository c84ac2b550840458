#include "io/npy.h"

namespace attend {

std::string npy_bytes(std::span<const float> values, int64_t rows, int64_t width) {
  constexpr size_t kFixed = 10, kAlignment = 64;  // magic, version, length of the header
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(width) + "), }";
  header.append((kAlignment - (kFixed + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

}  // namespace attend
