#pragma once

#include <array>
#include <cstdint>

namespace attend {

/// Philox4x32 (Salmon et al. 2011): four random 32-bit words as a pure function of a key and a counter. Each element of
/// a sequence can be computed independently, so results do not depend on the thread count or the device.
template <int kRounds = 10>
constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> c{static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                            static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Identifies one stream of random numbers. Streams with the same seed and different `stream` numbers are independent.
struct RandomStream {
  uint64_t seed = 0;
  uint64_t stream = 0;
  /// If not null, the number at this address is added to `stream` when a kernel runs. The address is in the memory of
  /// the kernel's device. Kernels that were captured in a graph thus draw other numbers at each launch.
  const uint64_t* base = nullptr;

  /// The same stream without a base, which must be in the host's memory.
  constexpr RandomStream settled() const { return {seed, base != nullptr ? stream + *base : stream, nullptr}; }
};

/// Generates streams. Functions that need randomness take an Rng as an argument. Saving and restoring `seed` and `next`
/// continues the sequence of streams exactly.
struct Rng {
  uint64_t seed = 0;
  uint64_t next = 0;
  const uint64_t* base = nullptr;  ///< see RandomStream
  RandomStream stream() { return {seed, next++, base}; }
};

/// A uniform float in [0, 1), from the upper 24 bits of `bits`.
constexpr float uniform_from_bits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Dropout uses 15 random bits per element, so that one block of Philox serves eight elements, and seven rounds, the
/// smallest number that passes the tests of BigCrush (Salmon et al. 2011).
constexpr int kDropRounds = 7, kDropGroup = 8;
/// An element is dropped if its 15 bits are below this threshold: P(drop) = p to within 2^-16, and > 0 if p > 0.
constexpr uint32_t drop_threshold(double p) {
  const auto nearest = static_cast<uint32_t>(p * 0x8000 + 0.5);
  return p > 0 && nearest == 0 ? 1 : nearest;
}
/// Whether dropout keeps element `at` of the eight that share a block: each word has the bits of two elements, the
/// lower half those of the first.
constexpr bool dropout_keeps(const std::array<uint32_t, 4>& words, int64_t at, uint32_t threshold) {
  return (words[static_cast<unsigned>(at) / 2] >> (at % 2 * 16) & 0x7fff) >= threshold;
}

}  // namespace attend
