#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "attend/base/random.h"

namespace attend {

// Purposes of random numbers in this folder. The values are larger than those of the streams that Rng hands out, so the
// two never collide.
enum class DataStream : uint64_t { split = 0xda7a'0001, examples, batches, windows, dates, date_shapes };

/// Random numbers as a function of a seed, a purpose, a round (an epoch or a step) and a counter.
struct RandomSource {
  uint64_t seed = 0;
  DataStream purpose = DataStream::split;
  uint64_t round = 0;

  uint64_t bits(uint64_t counter) const {
    // The purpose occupies the upper 32 bits of the stream. Rounds repeat after 2^32, which no training run reaches.
    const auto words = philox(seed, counter, static_cast<uint64_t>(purpose) << 32 | (round & 0xffff'ffffu));
    return uint64_t{words[1]} << 32 | words[0];
  }
  /// A number in [0, bound), with a bias below bound · 2^-64.
  uint64_t below(uint64_t bound, uint64_t counter) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(Wide{bits(counter)} * bound >> 64);
  }
};

/// Fisher–Yates shuffle. Uses the counters first … first + items − 1.
template <class T>
void shuffle(std::span<T> items, const RandomSource& random, uint64_t first) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i, first + i - 1)]);
}

}  // namespace attend
