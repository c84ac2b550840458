#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace attend::cache_format {

// Layout of a token cache, in the machine's byte order: kMagic; the ids as int32, padded to 8 bytes; the start of each
// sequence and the end of the last one as uint64; the fingerprint, padded to 8 bytes; the footer. Everything before the
// footer can be streamed.
inline constexpr uint64_t kMagic = 0x3130'6469'6e74'7461;  // "atntid01" in little-endian order
inline constexpr uint64_t kMaxColumns = 64;
inline constexpr uint64_t kMaxFingerprint = uint64_t{1} << 20;

struct Footer {
  uint64_t examples = 0;
  uint64_t columns = 0;
  uint64_t ids = 0;
  uint64_t fingerprint_bytes = 0;
  int64_t largest_id = -1;
  uint32_t ids_checksum = 0;    // CRC-32 as in gzip
  uint32_t index_checksum = 0;  // of the offsets, the fingerprint and this footer with this field set to 0
  uint64_t magic = kMagic;
};
static_assert(sizeof(Footer) == 56);

constexpr uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Extends a checksum: `before` is the checksum of the preceding bytes, 0 at the start.
uint32_t checksum(uint32_t before, const void* data, size_t bytes);
uint32_t index_checksum(std::span<const std::byte> offsets, std::span<const std::byte> fingerprint, Footer footer);

}  // namespace attend::cache_format
