#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul/bf16.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Products of a few rows, rounded to bf16, with bf16 weights. As in linear_few-inl.h, lanes are rows of weights, and a
// square of words is transposed in registers; a word is two neighbours along k.
namespace attend::cpu {
namespace {

constexpr int64_t kMostRows = 48;  // with more rows of x, packing the weights pays

#if defined(__x86_64__)
#define ATTEND_AVX512_BF16 gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")

constexpr int64_t kGroup = 16;                                 // rows of weights that are multiplied together
constexpr int64_t kSquare = 2 * kGroup;                        // elements of k in a square
constexpr int64_t kAheadMost = 192 << 10, kAheadInRow = 1024;  // bytes

using Words = float __attribute__((vector_size(64)));

// The shuffles of a square: even and odd words, pairs of words, and 128-bit blocks of two vectors.
#define ATTEND_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define ATTEND_HIGH(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define ATTEND_LOW_PAIRS(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define ATTEND_HIGH_PAIRS(a, b) \
  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define ATTEND_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define ATTEND_ODD(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)

/// v[r] holds row r of a square, then column r.
[[ATTEND_AVX512_BF16, gnu::always_inline]] inline void transpose_square(Words (&v)[kGroup]) {
#pragma GCC unroll 4
  for (int r = 0; r < kGroup; r += 4) {
    const Words ab_low = ATTEND_LOW(v[r], v[r + 1]), ab_high = ATTEND_HIGH(v[r], v[r + 1]);
    const Words ce_low = ATTEND_LOW(v[r + 2], v[r + 3]), ce_high = ATTEND_HIGH(v[r + 2], v[r + 3]);
    v[r] = ATTEND_LOW_PAIRS(ab_low, ce_low), v[r + 1] = ATTEND_HIGH_PAIRS(ab_low, ce_low);
    v[r + 2] = ATTEND_LOW_PAIRS(ab_high, ce_high), v[r + 3] = ATTEND_HIGH_PAIRS(ab_high, ce_high);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Words even01 = ATTEND_EVEN(v[c], v[c + 4]), odd01 = ATTEND_ODD(v[c], v[c + 4]);
    const Words even23 = ATTEND_EVEN(v[c + 8], v[c + 12]), odd23 = ATTEND_ODD(v[c + 8], v[c + 12]);
    v[c] = ATTEND_EVEN(even01, even23), v[c + 4] = ATTEND_EVEN(odd01, odd23);
    v[c + 8] = ATTEND_ODD(even01, even23), v[c + 12] = ATTEND_ODD(odd01, odd23);
  }
}

/// Prefetches weights: the next group in order of memory or, if groups are too large for L2, the same rows further on.
[[gnu::always_inline]] inline void fetch_ahead(const BFloat16* group, const BFloat16* at, int64_t row, int64_t square) {
  if (kGroup * row * 2 <= kAheadMost) {
    const auto* next = reinterpret_cast<const char*>(group + kGroup * row) + square * kGroup * 64;
    for (int64_t line = 0; line < kGroup; ++line) __builtin_prefetch(next + line * 64, 0, 2);
  } else {
    const auto* further = reinterpret_cast<const char*>(at) + kAheadInRow;
    for (int64_t r = 0; r < kGroup; ++r) __builtin_prefetch(further + r * row * 2, 0, 2);
  }
}

/// A square of weights at the edge of the matrix: missing rows and elements are 0.
[[ATTEND_AVX512_BF16]] void load_edge(const BFloat16* at, int64_t row, int64_t lines, int64_t count,
                                      Words (&v)[kGroup]) {
  alignas(64) uint32_t square[kGroup * kGroup] = {};
  for (int64_t r = 0; r < lines; ++r) {
    std::memcpy(square + r * kGroup, at + r * row, static_cast<size_t>(count) * sizeof(BFloat16));
  }
  std::memcpy(v, square, sizeof square);
}

template <int kFew>
[[ATTEND_AVX512_BF16]] void multiply_group(const Bf16Lines& in, int64_t first) {
  const int64_t lines = std::min(kGroup, in.lines - first);
  const BFloat16* group = in.weights + first * in.weight_row;
  alignas(64) float start[kGroup] = {};
  if (in.bias != nullptr) std::copy_n(in.bias + first, lines, start);
  __m512 sum[kFew];
#pragma GCC unroll 8
  for (int i = 0; i < kFew; ++i) sum[i] = _mm512_load_ps(start);
  for (int64_t p = 0; p < in.depth; p += kSquare) {
    Words word[kGroup];
    if (in.fetches_ahead) fetch_ahead(group, group + p, in.weight_row, p / kSquare);
    if (lines == kGroup && p + kSquare <= in.depth) {
#pragma GCC unroll 16
      for (int r = 0; r < kGroup; ++r) word[r] = _mm512_loadu_ps(group + r * in.weight_row + p);
    } else {
      load_edge(group + p, in.weight_row, lines, std::min(kSquare, in.depth - p), word);
    }
    transpose_square(word);
    const uint32_t* x = in.x + p / 2;
#pragma GCC unroll 16
    for (int c = 0; c < kGroup; ++c) {
#pragma GCC unroll 8
      for (int i = 0; i < kFew; ++i) {
        const auto value = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[i * in.x_row + c]));
        sum[i] = _mm512_dpbf16_ps(sum[i], value, (__m512bh)word[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kFew; ++i) {
    float* y = in.y + i * in.y_row + first;
    if (lines == kGroup) {
      _mm512_storeu_ps(y, sum[i]);
    } else {
      alignas(64) float lanes[kGroup];
      _mm512_store_ps(lanes, sum[i]);
      std::copy_n(lanes, lines, y);
    }
  }
}

template <int kFew>
void multiply_rows(const Bf16Lines& in) {
  if constexpr (kFew > 1) {
    if (in.rows < kFew) return multiply_rows<kFew - 1>(in);
  }
  for (int64_t first = 0; first < in.lines; first += kGroup) multiply_group<kFew>(in, first);
}
#endif

}  // namespace

#if defined(__x86_64__)
void multiply_lines_avx512(const Bf16Lines& lines) { multiply_rows<kBf16FewRows>(lines); }
#endif

bool multiply_few_bf16(ConstRows x, std::span<const WeightProduct> products) {
  const Bf16Unit* unit = bf16_unit();
  const auto is_small = [&](const WeightProduct& product) { return std::min(x.cols, product.y.cols) < kBf16Block; };
  if (unit == nullptr || unit->multiply_lines == nullptr || x.rows > kMostRows) return false;
  if (std::ranges::any_of(products, is_small)) return false;
  const int64_t words = (x.cols + kBf16Block - 1) / kBf16Block * kBf16Block / 2;
  const Scratch<uint32_t> rounded(x.rows * words);
  std::fill_n(rounded.data(), x.rows * words, 0u);
  for (int64_t i = 0; i < x.rows; ++i) {
    unit->round(static_cast<const float*>(x.data) + i * x.stride, x.cols, rounded.data() + i * words);
  }
  for_weight_rows(products, 16, [&](const WeightProduct& product, int64_t first, int64_t last) {
    const ConstRows& values = product.weight.values;
    const auto* bias = static_cast<const float*>(product.bias.data);
    const int64_t step = x.rows > kBf16FewRows ? 16 : last - first;  // 16 lines stay in cache for all of x
    for (int64_t j = first; j < last; j += step) {
      for (int64_t row = 0; row < x.rows; row += kBf16FewRows) {
        unit->multiply_lines({.rows = std::min(kBf16FewRows, x.rows - row),
                              .lines = std::min(step, last - j),
                              .depth = x.cols,
                              .x = rounded.data() + row * words,
                              .x_row = words,
                              .weights = static_cast<const BFloat16*>(values.data) + j * values.stride,
                              .weight_row = values.stride,
                              .bias = bias != nullptr ? bias + j : nullptr,
                              .y = static_cast<float*>(product.y.data) + row * product.y.stride + j,
                              .y_row = product.y.stride,
                              .fetches_ahead = row == 0});
      }
    }
  });
  return true;
}

}  // namespace attend::cpu
