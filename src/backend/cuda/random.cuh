#pragma once

#include "attend/base/random.h"
#include "backend/cuda/types.cuh"

namespace attend::cuda {

/// RandomStream::settled() for a base in the device's memory.
__device__ __forceinline__ RandomStream settled(RandomStream random) {
  if (random.base != nullptr) random.stream += __ldg(reinterpret_cast<const unsigned long long*>(random.base));
  random.base = nullptr;
  return random;
}

/// Philox4x32: the same words as attend/base/random.h.
template <int kRounds = 10>
__device__ inline uint4 philox_words(RandomStream random, uint64_t counter) {
  uint4 c{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(random.stream),
          static_cast<uint32_t>(random.stream >> 32)};
  auto k0 = static_cast<uint32_t>(random.seed), k1 = static_cast<uint32_t>(random.seed >> 32);
#pragma unroll
  for (int round = 0; round < kRounds; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c.x, p1 = uint64_t{0xCD9E8D57u} * c.z;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.y ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c.w ^ k1, static_cast<uint32_t>(p0)};
  }
  return c;
}

/// The threshold of dropout for both halves of a word.
__host__ __device__ constexpr uint32_t two_thresholds(uint32_t threshold) { return threshold << 16 | threshold; }
/// Bits 15 and 31: whether dropout keeps the elements that have the lower and the upper half of a word. The sixteenth
/// bit of each half, which is not random here, takes the borrow.
__device__ __forceinline__ uint32_t kept_pair(uint32_t word, uint32_t two) {
  return ((word | 0x80008000u) - two) & 0x80008000u;
}

constexpr int kRandomThreads = 256;

/// The elements of one thread: N = 4 (a block of Philox) or 8 consecutive ones, row-major.
template <class T>
constexpr int kRandomPack = std::max(4, kPack<T>);

template <int N>
__device__ inline void random_words(RandomStream random, int64_t first, uint32_t (&words)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const uint4 four = philox_words(random, static_cast<uint64_t>(first + i) / 4);
    words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
  }
}

/// Bit e: whether dropout keeps element e of the eight that share a block. `two`: two_thresholds().
__device__ __forceinline__ uint32_t kept_of_eight(const uint4& words, uint32_t two) {
  uint32_t bits = 0;  // after four words: bits 12 … 15 for the first elements of the words, 28 … 31 for the second
  const auto add = [&](uint32_t word) { bits = bits >> 1 | kept_pair(word, two); };
  add(words.x), add(words.y), add(words.z), add(words.w);
  const uint32_t even = bits >> 12 & 15, odd = bits >> 28;
  const auto spread = [](uint32_t x) { return (x & 1) | (x & 2) << 1 | (x & 4) << 2 | (x & 8) << 3; };
  return spread(even) | spread(odd) << 1;
}

/// How the elements of a matrix are numbered: as one row if it is dense.
struct RandomShape {
  int64_t count, cols;
  bool whole;  ///< every pack lies in one row and may be moved by whole accesses
};
template <int kN, class... Matrices>
RandomShape random_shape(const Rows& y, const Matrices&... others) {
  const auto dense = [](const auto& x) { return x.stride == x.cols || x.rows == 1; };
  const auto aligned = [](const auto& x) { return rows_aligned(x, kN); };
  const auto start = [](const auto& x) { return reinterpret_cast<uintptr_t>(x.data) % 16 == 0; };
  const bool all_dense = dense(y) && (dense(others) && ...);
  const bool whole =
      all_dense ? start(y) && (start(others) && ...) : y.cols % kN == 0 && aligned(y) && (aligned(others) && ...);
  return {y.numel(), all_dense ? std::max<int64_t>(1, y.numel()) : y.cols, whole};
}

inline unsigned random_grid(int64_t count, int pack) {
  return static_cast<unsigned>(ceil_div(ceil_div(count, pack), kRandomThreads));
}

}  // namespace attend::cuda
