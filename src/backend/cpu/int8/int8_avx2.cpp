#include "backend/cpu/int8/int8.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/int8/int8_x86.h"

// AVX2 has no exact 8-bit dot product: vpmaddubsw saturates. Instead, values are widened to 16 bits and multiplied by
// vpmaddwd, two products per lane. This is as fast: 32 products take two multiplications and two additions instead of
// two and one, and the additions find free ports (Zen 3: multiplications run on two of four ports, additions on all).
// The peak is therefore twice that of f32.
//
// Of 32 neighbours along k the even ones are stored first, then the odd ones: shifts widen bytes to 16 bits in that
// order, without a shuffle.
namespace attend::cpu {
namespace {

constexpr int64_t kRows = 4, kColumns = 24, kVectors = kColumns / 8, kElement = 2, kBlock = 32;
constexpr int64_t kDotElement = 2;  // bytes per element of x for dot products: 32 values, then their magnitudes

[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i even_bytes(__m256i x) {
  return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
}
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }

/// Narrows two vectors of 32-bit elements to one of 16-bit elements, in order.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i narrowed(__m256i low, __m256i high) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
}

/// Quantises 32 values to two vectors of 16-bit integers: the even positions, then the odd positions.
[[gnu::target("avx2,fma")]] void prepare_block(const float* x, __m256 inverse, int16_t* to) {
  __m256i words[4];
  for (int i = 0; i < 4; ++i) {
    words[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));  // nearest, ties to even
  }
  // Each 64-bit lane holds an even position below an odd one: gather the 32-bit halves, then narrow to 16 bits.
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  for (__m256i& word : words) word = _mm256_permutevar8x32_epi32(word, order);
  const __m256i even_low = _mm256_permute2x128_si256(words[0], words[1], 0x20),
                even_high = _mm256_permute2x128_si256(words[2], words[3], 0x20);
  const __m256i odd_low = _mm256_permute2x128_si256(words[0], words[1], 0x31),
                odd_high = _mm256_permute2x128_si256(words[2], words[3], 0x31);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrowed(even_low, even_high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16), narrowed(odd_low, odd_high));
}

[[gnu::target("avx2,fma")]] void prepare_avx2(const float* x, int64_t count, uint8_t* to, float* factor) {
  const auto [step, inverse] = int8_steps(largest_bits(x, count));
  *factor = step;
  const __m256 inverses = _mm256_set1_ps(inverse);
  auto* target = reinterpret_cast<int16_t*>(to);
  const int64_t padded = (count + kInt8Step - 1) / kInt8Step * kInt8Step;
  if (inverse == 0) return void(std::memset(to, 0, static_cast<size_t>(padded * kElement)));
  int64_t p = 0;
  for (; p + kBlock <= count; p += kBlock) prepare_block(x + p, inverses, target + p);
  for (; p < padded; p += kBlock) {
    float rest[kBlock] = {};
    std::copy(x + std::min(p, count), x + count, rest);
    prepare_block(rest, inverses, target + p);
  }
}

/// Packs a panel: for each 32 elements of k, 16 words of all columns, first the even positions, then the odd ones.
[[gnu::target("avx2,fma")]] void pack_avx2(const int8_t* weights, int64_t weight_row, int64_t lines, int64_t depth,
                                           uint8_t* to) {
  const int64_t padded = (depth + kInt8Step - 1) / kInt8Step * kInt8Step;
  alignas(32) static constexpr int8_t kZeros[kBlock] = {};
  for (int64_t p = 0; p < padded; p += kBlock) {
    for (int64_t first = 0; first < kColumns; first += 8) {
      __m256i rows[8];
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) {
        const bool is_real = first + j < lines && p < depth;
        const int8_t* from = is_real ? weights + (first + j) * weight_row + p : kZeros;
        if (is_real && p + kBlock > depth) {
          alignas(32) int8_t rest[kBlock] = {};
          std::copy(from, from + depth - p, rest);
          rows[j] = _mm256_load_si256(reinterpret_cast<const __m256i*>(rest));
        } else {
          rows[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        }
      }
      turn_words(rows);
      auto* words = reinterpret_cast<int32_t*>(to) + p / 2 * kColumns + first;
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + j * kColumns), even_bytes(rows[j]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + (8 + j) * kColumns), odd_bytes(rows[j]));
      }
    }
  }
}

template <int kTileRows>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void store_tile(const Int8Tile& tile,
                                                                       __m256i (&sum)[kTileRows][kVectors]) {
  for (int n = 0; n < kVectors; ++n) {
    if (tile.finish == nullptr) {
      for (int m = 0; m < kTileRows; ++m) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.c + m * tile.c_row + 8 * n), sum[m][n]);
      }
      continue;
    }
    const Int8Finish& finish = *tile.finish;
    const __m256 columns = _mm256_loadu_ps(finish.column_factors + 8 * n);
    const __m256 bias = finish.bias != nullptr ? _mm256_loadu_ps(finish.bias + 8 * n) : _mm256_setzero_ps();
    for (int m = 0; m < kTileRows; ++m) {
      const __m256 factors = _mm256_mul_ps(_mm256_set1_ps(finish.row_factors[m]), columns);
      _mm256_storeu_ps(reinterpret_cast<float*>(tile.c + m * tile.c_row + 8 * n),
                       _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[m][n]), factors, bias));
    }
  }
}

template <int kTileRows>
[[gnu::target("avx2,fma"), gnu::noinline]] void multiply_rows(const Int8Tile& tile) {
  __m256i sum[kTileRows][kVectors];
#pragma GCC unroll 4
  for (int m = 0; m < kTileRows; ++m) {
#pragma GCC unroll 3
    for (int n = 0; n < kVectors; ++n) {
      const auto* c = reinterpret_cast<const __m256i*>(tile.c + m * tile.c_row + 8 * n);
      sum[m][n] = tile.add ? _mm256_loadu_si256(c) : _mm256_setzero_si256();
    }
  }
  const auto* b = reinterpret_cast<const __m256i*>(tile.b);
  const uint8_t* a = tile.a;
#pragma GCC unroll 4
  for (int64_t word = 0; word < tile.depth / 2; ++word, b += kVectors, a += 4) {
    const __m256i b0 = _mm256_loadu_si256(b), b1 = _mm256_loadu_si256(b + 1), b2 = _mm256_loadu_si256(b + 2);
#pragma GCC unroll 4
    for (int m = 0; m < kTileRows; ++m) {
      int32_t pair;
      std::memcpy(&pair, a + m * tile.a_row, sizeof pair);
      const __m256i value = _mm256_set1_epi32(pair);
      sum[m][0] = _mm256_add_epi32(sum[m][0], _mm256_madd_epi16(value, b0));
      sum[m][1] = _mm256_add_epi32(sum[m][1], _mm256_madd_epi16(value, b1));
      sum[m][2] = _mm256_add_epi32(sum[m][2], _mm256_madd_epi16(value, b2));
    }
  }
  store_tile(tile, sum);
}

void multiply_avx2(const Int8Tile& tile) {
  with_known_rows<static_cast<int>(kRows)>(tile.rows, [&](auto rows) { multiply_rows<rows>(tile); });
}

[[gnu::target("avx2,fma"), gnu::always_inline]] inline int32_t sum_lanes(__m256i x) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

/// Dot products have no panel that could be widened once. They use vpmaddubsw on |x| and on the weights with the signs
/// of x. Neither operand is ever −128, so the sum of two products is at most 2 · 127² and does not saturate.
[[gnu::target("avx2,fma")]] void prepare_dots_avx2(const float* x, int64_t count, uint8_t* to, float* factor) {
  const auto [step, inverse] = int8_steps(largest_bits(x, count));
  *factor = step;
  const __m256 inverses = _mm256_set1_ps(inverse);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the lane order of the two packs
  for (int64_t p = 0; p < count; p += kBlock) {
    float rest[kBlock] = {};
    const float* from = x + p;
    if (p + kBlock > count || inverse == 0) {
      if (inverse != 0) std::copy(from, x + count, rest);
      from = rest;
    }
    __m256i words[4];
    for (int i = 0; i < 4; ++i) {
      words[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from + 8 * i), inverses));
    }
    const __m256i halves =
        _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]), _mm256_packs_epi32(words[2], words[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(halves, order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kDotElement * p), bytes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kDotElement * p + kBlock), _mm256_abs_epi8(bytes));
  }
}

/// 32 products of weights and prepared x, summed into eight lanes.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i dot_bytes(__m256i weights, const __m256i* x) {
  const __m256i signs = _mm256_loadu_si256(x), magnitudes = _mm256_loadu_si256(x + 1);
  return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(weights, signs)), _mm256_set1_epi16(1));
}

/// Multiplies kFew rows of x with four rows of weights, one after the other, from line j on. With two streams, also
/// multiplies the four rows that begin `apart` lines further, interleaved with the first four.
template <int kFew, int kStreams>
[[gnu::target("avx2,fma")]] void dot_four(const Int8Dots& dots, int64_t j, int64_t apart) {
  const int8_t* lines = dots.weights + j * dots.weight_row;
  __m256i sum[kStreams][kFew][4];
#pragma GCC unroll 2
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 4
    for (int i = 0; i < kFew; ++i) {
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) sum[s][i][n] = _mm256_setzero_si256();
    }
  }
  const int64_t p = dots.depth / kBlock * kBlock;
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    const int8_t* line[kStreams];
    for (int s = 0; s < kStreams; ++s) line[s] = lines + (n + s * apart) * dots.weight_row;
    int64_t q = 0;
    for (; q + 2 * kBlock <= p; q += 2 * kBlock) {  // one cache line at a time
      __m256i low[kStreams], high[kStreams];
#pragma GCC unroll 2
      for (int s = 0; s < kStreams; ++s) {
        dots.ahead.fetch(line[s] + q);
        low[s] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line[s] + q));
        high[s] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line[s] + q + kBlock));
      }
#pragma GCC unroll 4
      for (int i = 0; i < kFew; ++i) {
        const auto* x = reinterpret_cast<const __m256i*>(dots.x + i * dots.x_row + q * kDotElement);
#pragma GCC unroll 2
        for (int s = 0; s < kStreams; ++s) {
          const __m256i both = _mm256_add_epi32(dot_bytes(low[s], x), dot_bytes(high[s], x + 2));
          sum[s][i][n] = _mm256_add_epi32(sum[s][i][n], both);
        }
      }
    }
    for (; q < p; q += kBlock) {
      for (int s = 0; s < kStreams; ++s) {
        const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line[s] + q));
        for (int i = 0; i < kFew; ++i) {
          const auto* x = reinterpret_cast<const __m256i*>(dots.x + i * dots.x_row + q * kDotElement);
          sum[s][i][n] = _mm256_add_epi32(sum[s][i][n], dot_bytes(weights, x));
        }
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    for (int i = 0; i < kFew; ++i) {
      alignas(16) int32_t totals[4];
      _mm_store_si128(reinterpret_cast<__m128i*>(totals), sums_of(sum[s][i]));
      const auto* x = reinterpret_cast<const int8_t*>(dots.x + i * dots.x_row + p * kDotElement);
      for (int64_t rest = p; rest < dots.depth; ++rest) {
        for (int n = 0; n < 4; ++n) totals[n] += x[rest - p] * lines[(n + s * apart) * dots.weight_row + rest];
      }
      finish_four(dots, i, j + s * apart, _mm_load_si128(reinterpret_cast<const __m128i*>(totals)));
    }
  }
}

/// Multiplies one row of weights, for the remainder if the number of lines is not a multiple of four.
template <int kFew>
[[gnu::target("avx2,fma")]] void dot_one(const Int8Dots& dots, int64_t j) {
  const int8_t* line = dots.weights + j * dots.weight_row;
  for (int i = 0; i < kFew; ++i) {
    const auto* x = reinterpret_cast<const int8_t*>(dots.x + i * dots.x_row);
    int32_t total = 0;
    for (int64_t p = 0; p < dots.depth; ++p) total += x[p / kBlock * kBlock * kDotElement + p % kBlock] * line[p];
    dots.y[i * dots.y_row + j] = int8_finished(dots.finish, i, j, total);
  }
}

template <int kFew>
void dot_lines(const Int8Dots& dots) {
  const int64_t apart = lines_apart(dots.lines, dots.weight_row, 4);
  int64_t j = 0;
  for (; j < apart; j += 4) dot_four<kFew, 2>(dots, j, apart);
  for (j = 2 * apart; j + 4 <= dots.lines; j += 4) dot_four<kFew, 1>(dots, j, 0);
  for (; j < dots.lines; ++j) dot_one<kFew>(dots, j);
}

void dots_avx2(const Int8Dots& dots) {
  with_known_rows<4>(dots.rows, [&](auto rows) { dot_lines<rows>(dots); });
}

/// The arithmetic of multiply_rows without its loads: 12 sums, three vectors of b, one of a.
[[gnu::target("avx2,fma")]] double spin_avx2(int64_t steps, int32_t* sink) {
  constexpr int kSums = kRows * kVectors;
  __m256i sum[kSums], b[kVectors];
  const __m256i value = _mm256_set1_epi32(*sink);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_epi32(i);
#pragma GCC unroll 3
  for (int i = 0; i < kVectors; ++i) b[i] = _mm256_set1_epi32(*sink + i);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      // Assembly, because the compiler would hoist the products, which are loop invariants, out of the loop.
      __m256i product;
      asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
                   : "+x"(sum[i]), "=&x"(product)
                   : "x"(value), "x"(b[i % kVectors]));
    }
  }
  __m256i total = _mm256_setzero_si256();
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) total = _mm256_xor_si256(total, sum[i]);
  *sink ^= sum_lanes(total) & 1;
  return 2.0 * kSums * 16 * static_cast<double>(steps);
}

}  // namespace

const Int8Unit kInt8Avx2{.name = "avx2",
                         .rows = kRows,
                         .columns = kColumns,
                         .element = kElement,
                         .dot_element = kDotElement,
                         .zero = 0,
                         .prepare = prepare_avx2,
                         .prepare_dots = prepare_dots_avx2,
                         .pack = pack_avx2,
                         .multiply = multiply_avx2,
                         .dots = dots_avx2,
                         .spin = spin_avx2};

}  // namespace attend::cpu

#endif
