#pragma once

#include <cmath>

#include "backend/cuda/attention/hopper_common.h"
#include "backend/cuda/random.cuh"

// The options of attention on scores in the registers of warpgroup products, with the meaning that score.cuh gives
// them.
//
// A fragment of N columns has N / 2 registers a thread. Register i is in row 8 (i / 2 mod 2) and in column
// 8 (i / 4) + i mod 2, counted from the thread's first row, lane / 4, and its first column, 2 (lane mod 4). kFlipped:
// rows are keys and columns are queries, else rows are queries and columns are keys.
//
// Scores with options are in natural units, so that weights are 2^(kLog2E · score). The steps, in their order:
// scale_scores or cap_scores, subtract_distances, add_bias, hide_masked, positions (by the kernels), and on weights
// drop_pair. A hidden key may give NaN here: kernels mark blocks that are not finite (marks.h).
namespace attend::cuda {

template <int kCount>
__device__ __forceinline__ void scale_scores(float (&s)[kCount], float scale) {
#pragma unroll
  for (float& x : s) x = __fmul_rn(x, scale);
}

// --- softcap ---------------------------------------------------------------------------------------------------------

struct CapOptions {
  float cap = 0;      ///< 0: no softcap
  float inverse = 0;  ///< scale / cap
  float limit = 0;    ///< of |q · k| for the short series
  float shorter[3] = {};
  float longer[6] = {};
};
/// Series in x², for x = scale · q·k / cap: tanh(x) / x, interpolated at Chebyshev's nodes. That of three terms serves
/// |x| ≤ 0.3 and is in q · k instead of x, that of six serves |x| ≤ 1. Absolute errors are below 5e-7 · cap.
inline CapOptions cap_options(double scale, double cap) {
  constexpr double kShorter[3] = {0.9999988351337197, -0.33309988804318214, 0.12633582391595513};
  constexpr double kLonger[6] = {0.9999993948006496,    -0.3332895137021663, 0.13280720645983404,
                                 -0.051585988404166776, 0.0167208551795165,  -0.0030582290375727058};
  const double inverse = cap > 0 ? scale / cap : 0;
  CapOptions options{.cap = static_cast<float>(cap), .inverse = static_cast<float>(inverse)};
  options.limit = static_cast<float>(0.3 / std::abs(inverse));
  for (int n = 0; n < 3; ++n) options.shorter[n] = static_cast<float>(cap * kShorter[n] * std::pow(inverse, 2 * n + 1));
  for (int n = 0; n < 6; ++n) options.longer[n] = static_cast<float>(cap * kLonger[n]);
  return options;
}
/// x · Σ series[n] x^2n
template <int kTerms>
__device__ __forceinline__ float odd_series(float x, const float (&series)[kTerms]) {
  const float w = x * x;
  float sum = series[kTerms - 1];
#pragma unroll
  for (int n = kTerms - 2; n >= 0; --n) sum = fmaf(sum, w, series[n]);
  return __fmul_rn(x, sum);
}
/// cap · tanh(x) for |x| > 1, with absolute error below 2e-7 · cap.
__device__ __forceinline__ float large_tanh(float x, const CapOptions& cap) {
  float inverse;  // volatile: computed for every element, as branches would cost more
  asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1 + exp2_fast(x * (2 * kLog2E))));
  return __fmul_rn(cap.cap, fmaf(-2.f, inverse, 1.f));
}

/// Replaces q · k by cap · tanh(scale · q·k / cap). The series need no special functions, whose unit is busy with the
/// weights. A warp skips the formulas that none of its scores needs; all ways give an element the same bits.
template <int kCount>
__device__ __forceinline__ void cap_scores(float (&s)[kCount], const CapOptions& cap) {
  float most = 0;
#pragma unroll
  for (const float x : s) most = fmaxf(most, fabsf(x));
  const auto formula = [&](float x, bool is_large) {
    const float angle = __fmul_rn(x, cap.inverse);
    float y = odd_series(angle, cap.longer);
    if (is_large) {
      const float large = large_tanh(angle, cap);
      y = fabsf(angle) <= 1 ? y : large;
    }
    return fabsf(x) <= cap.limit ? odd_series(x, cap.shorter) : y;
  };
  if (__all_sync(0xffffffff, most <= cap.limit)) {
#pragma unroll
    for (float& x : s) x = odd_series(x, cap.shorter);
  } else if (__all_sync(0xffffffff, most * fabsf(cap.inverse) < 0.999f)) {
#pragma unroll
    for (float& x : s) x = formula(x, false);
  } else {
#pragma unroll
    for (float& x : s) x = formula(x, true);
  }
}
/// The derivative of cap · tanh(x / cap) from its value.
__device__ __forceinline__ float cap_slope(float capped, float inverse_cap) {
  const float t = capped * inverse_cap;
  return fmaf(-t, t, 1.f);
}

// --- ALiBi -----------------------------------------------------------------------------------------------------------

/// Subtracts slope · |position of the query − key|. `distance`: position of the thread's first query − its first key.
/// Products of a 16-bit slope and a distance below 2^13 are exact.
template <bool kFlipped, int kCount>
__device__ __forceinline__ void subtract_distances(float (&s)[kCount], float slope, int distance) {
  const float step = kFlipped ? slope : -slope;
  const float first[2] = {slope * static_cast<float>(distance),
                          slope * static_cast<float>(distance + (kFlipped ? -8 : 8))};
  const auto size = [&](int i) { return fabsf(fmaf(static_cast<float>(i / 4 * 8 + i % 2), step, first[i / 2 % 2])); };
  if (slope >= 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] -= size(i);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] += size(i);
  }
}

// --- bias and mask ---------------------------------------------------------------------------------------------------

/// A mask (bytes) or a bias (16-bit elements) that is broadcast to [batch, heads, queries, keys] by stride 0.
struct PairSource {
  const void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, key = 0;  ///< strides in elements
  bool wide = false;  ///< rows begin at multiples of 16 bytes, and neighbouring keys are neighbours in memory
};

/// Tiles of pairs in shared memory have 128 keys for each of kRows queries, in parts of 128 bytes a row. The 16-byte
/// chunks of a row are permuted as bulk copies do it: chunk c of row r is at place c ^ (r mod 8), so that eight rows
/// lie in different banks. Tiles begin at multiples of 1024 bytes.
inline constexpr int kPairKeys = 128, kPairPitch = 128;
template <int kRows>
__device__ __forceinline__ int pair_chunk(int row, int chunk) {
  return chunk / 8 * (kRows * kPairPitch) + row * kPairPitch + ((chunk % 8) ^ (row & 7)) * 16;
}

/// A warp starts to copy the pairs of kRows queries from `query` on and 128 keys from `key` on (both counted along the
/// tensor's axes) to a tile. Of these, `queries` and `keys` exist; the others become 0. False if it used ordinary
/// stores, because 16 bytes at a time do not fit.
template <class Element, int kRows>
__device__ __forceinline__ bool copy_pairs(const PairSource& source, int64_t batch, int64_t head, int64_t query,
                                           int64_t key, int queries, int keys, void* tile) {
  constexpr int kPerChunk = 16 / static_cast<int>(sizeof(Element)), kChunks = kPairKeys / kPerChunk;
  constexpr int kStep = 32 / kChunks;
  const int lane = static_cast<int>(threadIdx.x) % 32, chunk = lane % kChunks;
  const int bytes = min(max(keys - chunk * kPerChunk, 0), kPerChunk) * static_cast<int>(sizeof(Element));
  const Element* from = static_cast<const Element*>(source.data) + batch * source.batch + head * source.head +
                        (query + lane / kChunks) * source.row + (key + chunk * kPerChunk) * source.key;
  const uint32_t to = shared_address(tile);
  if (source.wide && key % kPerChunk == 0) {
    const int64_t step = kStep * source.row;
#pragma unroll 4
    for (int row = lane / kChunks; row < kRows; row += kStep, from += step) {
      const bool exists = row < queries && bytes > 0;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + pair_chunk<kRows>(row, chunk)),
                   "l"(exists ? static_cast<const void*>(from) : source.data), "r"(exists ? bytes : 0)
                   : "memory");
    }
    return true;
  }
#pragma unroll 1
  for (int row = lane / kChunks; row < kRows; row += kStep, from += kStep * source.row) {
    const uint32_t place = to + pair_chunk<kRows>(row, chunk);
#pragma unroll 1
    for (int n = 0; n < 4; ++n) {
      uint32_t word = 0;
#pragma unroll
      for (int e = 0; e < kPerChunk / 4; ++e) {
        const int column = n * (kPerChunk / 4) + e;
        if (row < queries && chunk * kPerChunk + column < keys)
          word |= static_cast<uint32_t>(from[column * source.key]) << (e * 8 * static_cast<int>(sizeof(Element)));
      }
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(place + 4 * n), "r"(word) : "memory");
    }
  }
  return false;
}
/// Each lane arrives at a barrier when its copies are complete. `is_async`: all were started by copy_pairs as such.
__device__ __forceinline__ void arrive_after_copies(uint64_t* barrier, bool is_async) {
  if (is_async) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
  } else {
    asm volatile("cp.async.wait_all;" ::: "memory");
    barrier_arrive(barrier);
  }
}

template <bool kTranspose>
__device__ __forceinline__ void read_matrices(uint32_t (&to)[4], uint32_t address) {
  if constexpr (kTranspose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/// Replaces scores by scale · score + bias, from a tile of biases. `row`: the warp's first query of the tile, or its
/// first key if kFlipped; a multiple of 16.
template <class T, bool kFlipped, int kCount>
__device__ __forceinline__ void add_bias(float (&s)[kCount], float scale, const void* tile, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kRows = kFlipped ? 2 * kCount : 64;
  const uint32_t first =
      shared_address(tile) + (kFlipped ? pair_chunk<kRows>(lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2)
                                       : pair_chunk<kRows>(row + lane % 16, lane / 16));
#pragma unroll
  for (int n = 0; n < kCount / 4; n += 2) {
    uint32_t words[4];
    // An exclusive or changes the number of a chunk.
    read_matrices<kFlipped>(
        words, kFlipped ? first + n * 8 * kPairPitch : (first ^ (n % 8 * 16)) + n / 8 * (kRows * kPairPitch));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 bias = unpack<T>(words[e]);
      s[4 * n + 2 * e] = fmaf(s[4 * n + 2 * e], scale, bias.x);
      s[4 * n + 2 * e + 1] = fmaf(s[4 * n + 2 * e + 1], scale, bias.y);
    }
  }
}

/// Sets scores to −inf where a tile of masks is 0. `row`: as for add_bias.
template <bool kFlipped, int kCount>
__device__ __forceinline__ void hide_masked(float (&s)[kCount], const void* tile, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kFlipped) {
    constexpr int kRows = 2 * kCount;
    const uint32_t first[2] = {shared_address(tile) + pair_chunk<kRows>(lane % 4 * 2, row / 16) + lane / 4,
                               shared_address(tile) + pair_chunk<kRows>(lane % 4 * 2 + 1, row / 16) + lane / 4};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      uint32_t seen;
      asm volatile("ld.shared.u8 %0, [%1];" : "=r"(seen) : "r"(first[i % 2] + i / 4 * 8 * kPairPitch + i / 2 % 2 * 8));
      if (seen == 0) s[i] = -INFINITY;
    }
  } else {
    const uint32_t first = shared_address(tile) + pair_chunk<64>(row + lane / 4, 0) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      uint16_t two;
      asm volatile("ld.shared.u16 %0, [%1];"
                   : "=h"(two)
                   : "r"((first ^ (i / 8 * 16)) + i / 4 % 2 * 8 + i / 2 % 2 * 8 * kPairPitch));
      if ((two & 0x00ff) == 0) s[i] = -INFINITY;
      if ((two & 0xff00) == 0) s[i + 1] = -INFINITY;
    }
  }
}

// --- dropout ---------------------------------------------------------------------------------------------------------

/// The random bits of attend/base/random.h: those of query row r (counted over batch, heads and queries) and keys 8 g …
/// 8 g + 7 are in the block of counter r · groups + g.
struct DropOptions {
  uint32_t keys[2 * kDropRounds] = {};  ///< of the rounds, two each
  uint64_t stream = 0;
  const uint64_t* base = nullptr;  ///< see RandomStream
  uint64_t groups = 0;             ///< groups of eight keys of a query
  uint32_t thresholds = 0;         ///< two_thresholds()
  float kept = 1;                  ///< factor of the weights that are not dropped
};

__device__ __forceinline__ uint64_t settled_stream(const DropOptions& drop) {
  return drop.base != nullptr ? drop.stream + __ldg(reinterpret_cast<const unsigned long long*>(drop.base))
                              : drop.stream;
}

/// Shifts the kept bits of the block of a counter into `bits` from above, those of the first elements of the four words
/// into the lower half, those of the second elements into the upper half. After four blocks, bit 16 h + 4 b + w belongs
/// to half h of word w of block b.
__device__ __forceinline__ void add_kept(const DropOptions& drop, uint64_t stream, uint64_t counter, uint32_t& bits) {
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream),
                   static_cast<uint32_t>(stream >> 32)};
#pragma unroll
  for (int round = 0; round < kDropRounds; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ drop.keys[2 * round];
    c[1] = static_cast<uint32_t>(p1);
    c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ drop.keys[2 * round + 1];
    c[3] = static_cast<uint32_t>(p0);
  }
#pragma unroll
  for (const uint32_t word : c) bits = bits >> 1 | kept_pair(word, drop.thresholds);
}

/// One step of a transposition: lanes whose numbers differ in kLane exchange the fields of x whose places differ in
/// kShift. kLow: the fields of the lower place.
template <int kLane, int kShift, uint32_t kLow>
__device__ __forceinline__ uint32_t exchange_fields(uint32_t x) {
  const uint32_t other = __shfl_xor_sync(0xffffffff, x, kLane);
  const bool is_upper = (threadIdx.x & kLane) != 0;
  const uint32_t moved = is_upper ? other >> kShift : other << kShift;
  const uint32_t own = is_upper ? ~kLow : kLow;
  return (x & own) | (moved & ~own);
}

/// Place of register i's bit in word i / 32 of kept_bits(). The bits of registers i and i + 1, for even i, are 16
/// apart.
__host__ __device__ constexpr int kept_place(int i) { return i % 2 * 16 + i / 16 % 2 * 8 + i / 2 % 2 * 4 + i / 4 % 4; }

/// The weights of kCount registers that dropout keeps. `row`: number of the thread's first query; `key`: the thread's
/// first key, counted from that of the sequence. All lanes call it: the lanes that need bits of the same blocks compute
/// four blocks each and exchange the bits.
template <bool kFlipped, int kCount>
__device__ __forceinline__ void kept_bits(const DropOptions& drop, uint64_t stream, uint64_t row, int key,
                                          uint32_t (&bits)[kCount / 32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Not flipped: the four lanes of a query have words 0 … 3 of its blocks. Lane t computes, for the fragments t and
  // t + 4 of eight, the blocks of both rows. Flipped: the eight lanes of a query have one element each. Lane 2 w + h
  // computes, for query h of the fragments w and w + 4, the blocks of both groups of keys.
  const int turn = kFlipped ? lane / 8 : lane % 4;
  const uint64_t step = kFlipped ? 8 * drop.groups : 1;    // from one fragment to the next
  const uint64_t across = kFlipped ? 1 : 8 * drop.groups;  // from one row of fragments to the other
  const uint64_t first = row + (kFlipped ? static_cast<uint64_t>(lane / 4 % 2) : 0);
  uint64_t counter = first * drop.groups + static_cast<uint64_t>(key / 8) + static_cast<uint64_t>(turn) * step;
#pragma unroll
  for (int word = 0; word < kCount / 32; ++word, counter += 8 * step) {
    uint32_t two[2] = {};  // independent, so that their instructions overlap
    add_kept(drop, stream, counter, two[0]);
    add_kept(drop, stream, counter + 4 * step, two[1]);
    add_kept(drop, stream, counter + across, two[0]);
    add_kept(drop, stream, counter + 4 * step + across, two[1]);
    // Each has 8 bits in the upper half of its halves.
    uint32_t all = (two[0] >> 8 & 0x00ff00ff) | (two[1] & 0xff00ff00);
    if constexpr (kFlipped) {
      all = exchange_fields<4, 16, 0x0000ffff>(all);
      all = exchange_fields<8, 1, 0x55555555>(all);
      all = exchange_fields<16, 2, 0x33333333>(all);
    } else {
      all = exchange_fields<1, 1, 0x55555555>(all);
      all = exchange_fields<2, 2, 0x33333333>(all);
    }
    bits[word] = all;
  }
}

template <int kCount>
__device__ __forceinline__ bool is_kept(const uint32_t (&bits)[kCount], int i) {
  return (bits[i / 32] >> kept_place(i) & 1) != 0;
}

/// Sets the elements that dropout does not keep to 0, in a word of the packed registers i and i + 1, for even i.
template <int kCount>
__device__ __forceinline__ uint32_t drop_pair(uint32_t pair, const uint32_t (&bits)[kCount], int i) {
  uint32_t mask;  // copies of the signs of bytes 1 and 3
  asm("prmt.b32 %0, %1, %1, 0xBB99;" : "=r"(mask) : "r"(bits[i / 32] << (15 - kept_place(i))));
  return pair & mask;
}

// --- all -------------------------------------------------------------------------------------------------------------

/// The options as an argument of a kernel. A step whose option is not set is skipped.
struct ScoreOptions {
  float scale = 1;
  CapOptions cap;
  const uint16_t* slopes = nullptr;
  int64_t slope_step = 0;
  PairSource bias, mask;
  bool drops = false;
  DropOptions drop;
};

/// The options of a problem whose q has a 16-bit type.
ScoreOptions score_options(const AttentionProblem& problem);

template <class T>
__device__ __forceinline__ float slope_of(const ScoreOptions& options, int head) {
  return options.slopes == nullptr ? 0.f : unpack<T>(options.slopes[head * options.slope_step]).x;
}

}  // namespace attend::cuda
