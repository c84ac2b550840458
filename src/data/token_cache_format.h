#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace attend::cache_format {

// A token cache, in the machine's byte order: kMagic; the ids as int32, padded to 8 bytes; where each sequence begins
// as uint64, one more than there are; the fingerprint, padded to 8 bytes; the footer. All but the footer can be
// streamed.
inline constexpr uint64_t kMagic = 0x3130'6469'6e74'7461;  // "atntid01" where the lowest byte comes first
inline constexpr uint64_t kMaxColumns = 64;
inline constexpr uint64_t kMaxFingerprint = uint64_t{1} << 20;

struct Footer {
  uint64_t examples = 0;
  uint64_t columns = 0;
  uint64_t ids = 0;
  uint64_t fingerprint_bytes = 0;
  int64_t largest_id = -1;
  uint32_t ids_checksum = 0;    // CRC-32, as gzip's
  uint32_t index_checksum = 0;  // of the offsets, the fingerprint and this footer with 0 here
  uint64_t magic = kMagic;
};
static_assert(sizeof(Footer) == 56);

constexpr uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Goes on from the checksum of what came before, 0 at first.
uint32_t checksum(uint32_t before, const void* data, size_t bytes);
uint32_t index_checksum(std::span<const std::byte> offsets, std::span<const std::byte> fingerprint, Footer footer);

}  // namespace attend::cache_format
