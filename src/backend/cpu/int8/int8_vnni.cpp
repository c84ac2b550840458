#include "backend/cpu/int8/int8.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/int8/int8_x86.h"

// AVX512-VNNI multiplies unsigned by signed bytes and adds four neighbouring products exactly (vpdpbusd). Prepared x is
// therefore x + 128, and 128 times the sum of a row of weights is subtracted at the end.
namespace attend::cpu {
namespace {

constexpr int64_t kRows = 8, kColumns = 48, kVectors = kColumns / 16, kBlock = 32;
constexpr int32_t kZero = 128;

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::always_inline]] inline __m512i load_bytes(
    const void* from) {
  return _mm512_loadu_si512(from);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::always_inline]] inline int32_t sum_lanes(
    __m512i x) {
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, x);
  int32_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")]] void prepare_vnni(const float* x, int64_t count,
                                                                                       uint8_t* to, float* factor) {
  const auto [step, inverse] = int8_steps(largest_bits(x, count));
  *factor = step;
  const int64_t padded = (count + kInt8Step - 1) / kInt8Step * kInt8Step;
  std::memset(to, kZero, static_cast<size_t>(padded));
  if (inverse == 0) return;
  const __m512 inverses = _mm512_set1_ps(inverse);
  const __m512i zero = _mm512_set1_epi32(kZero);
  for (int64_t p = 0; p < count; p += 16) {
    const auto present = static_cast<__mmask16>(count - p >= 16 ? 0xffff : (1 << (count - p)) - 1);
    const __m512 values = _mm512_mul_ps(_mm512_maskz_loadu_ps(present, x + p), inverses);
    const __m512i steps = _mm512_add_epi32(_mm512_maskz_cvtps_epi32(0xffff, values), zero);  // nearest, ties to even
    _mm512_mask_cvtepi32_storeu_epi8(to + p, present, steps);
  }
}

/// Packs a panel as 32-bit words of four neighbours along k: word 0 of all columns, then word 1, and so on.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")]] void pack_vnni(const int8_t* weights,
                                                                                    int64_t weight_row, int64_t lines,
                                                                                    int64_t depth, uint8_t* to) {
  const int64_t padded = (depth + kInt8Step - 1) / kInt8Step * kInt8Step;
  for (int64_t p = 0; p < padded; p += kBlock) {
    const int64_t present = std::clamp<int64_t>(depth - p, 0, kBlock);
    const auto mask = static_cast<__mmask32>(present == kBlock ? ~0u : (1u << present) - 1);
    for (int64_t first = 0; first < kColumns; first += 8) {
      __m256i rows[8];
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) {
        const bool is_real = first + j < lines && present > 0;
        const int8_t* from = is_real ? weights + (first + j) * weight_row + p : weights;
        rows[j] = _mm256_maskz_loadu_epi8(is_real ? mask : 0, from);
      }
      turn_words(rows);
      auto* words = reinterpret_cast<int32_t*>(to) + p / 4 * kColumns + first;
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + j * kColumns), rows[j]);
    }
  }
}

template <int kTileRows>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::always_inline]] inline void store_tile(
    const Int8Tile& tile, __m512i (&sum)[kTileRows][kVectors]) {
#pragma GCC unroll 3
  for (int n = 0; n < kVectors; ++n) {
    if (tile.finish == nullptr) {
#pragma GCC unroll 8
      for (int m = 0; m < kTileRows; ++m) _mm512_storeu_si512(tile.c + m * tile.c_row + 16 * n, sum[m][n]);
      continue;
    }
    const Int8Finish& finish = *tile.finish;
    const __m512 columns = _mm512_loadu_ps(finish.column_factors + 16 * n);
    const __m512 bias = finish.bias != nullptr ? _mm512_loadu_ps(finish.bias + 16 * n) : _mm512_setzero_ps();
    const __m512i excess = _mm512_mullo_epi32(load_bytes(finish.column_sums + 16 * n), _mm512_set1_epi32(kZero));
#pragma GCC unroll 8
    for (int m = 0; m < kTileRows; ++m) {
      const __m512 factors = _mm512_mul_ps(_mm512_set1_ps(finish.row_factors[m]), columns);
      const __m512 value = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_sub_epi32(sum[m][n], excess));
      _mm512_storeu_ps(reinterpret_cast<float*>(tile.c + m * tile.c_row + 16 * n),
                       _mm512_fmadd_ps(value, factors, bias));
    }
  }
}

template <int kTileRows>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::noinline]] void multiply_rows(
    const Int8Tile& tile) {
  __m512i sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kTileRows; ++m) {
#pragma GCC unroll 3
    for (int n = 0; n < kVectors; ++n) {
      sum[m][n] = tile.add ? load_bytes(tile.c + m * tile.c_row + 16 * n) : _mm512_setzero_si512();
    }
  }
  const uint8_t *a = tile.a, *b = tile.b;
  for (int64_t word = 0; word < tile.depth / 4; ++word, b += 4 * kColumns, a += 4) {
    const __m512i b0 = load_bytes(b), b1 = load_bytes(b + 64), b2 = load_bytes(b + 128);
#pragma GCC unroll 8
    for (int m = 0; m < kTileRows; ++m) {
      int32_t four;
      std::memcpy(&four, a + m * tile.a_row, sizeof four);
      const __m512i value = _mm512_set1_epi32(four);
      sum[m][0] = _mm512_dpbusd_epi32(sum[m][0], value, b0);
      sum[m][1] = _mm512_dpbusd_epi32(sum[m][1], value, b1);
      sum[m][2] = _mm512_dpbusd_epi32(sum[m][2], value, b2);
    }
  }
  store_tile(tile, sum);
}

void multiply_vnni(const Int8Tile& tile) {
  with_known_rows<static_cast<int>(kRows)>(tile.rows, [&](auto rows) { multiply_rows<rows>(tile); });
}

/// Adds the two halves of a vector through memory: GCC 12 warns about its own intrinsics that extract the upper half.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::always_inline]] inline __m256i added_halves(
    __m512i x) {
  alignas(64) __m256i halves[2];
  _mm512_store_si512(halves, x);
  return _mm256_add_epi32(halves[0], halves[1]);
}

/// Adds 64 products of the weights with each row of x to the row's n-th sum.
template <int kFew, int kMany>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"), gnu::always_inline]] inline void add_products(
    const Int8Dots& dots, int64_t p, __m512i weights, int n, __m512i (&sum)[kFew][kMany]) {
#pragma GCC unroll 4
  for (int i = 0; i < kFew; ++i) {
    sum[i][n] = _mm512_dpbusd_epi32(sum[i][n], load_bytes(dots.x + i * dots.x_row + p), weights);
  }
}

/// Multiplies kFew rows of x with kMany rows of weights, one after the other, from line j on. With two streams, also
/// multiplies the rows that begin `apart` lines further, interleaved with the first ones.
template <int kFew, int kMany, int kStreams>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")]] void dot_tile(const Int8Dots& dots, int64_t j,
                                                                                   int64_t apart) {
  __m512i sum[kStreams][kFew][kMany];
#pragma GCC unroll 2
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 4
    for (int i = 0; i < kFew; ++i) {
#pragma GCC unroll 4
      for (int n = 0; n < kMany; ++n) sum[s][i][n] = _mm512_setzero_si512();
    }
  }
  const int64_t whole = dots.depth / 64 * 64;
  const __mmask64 rest = (__mmask64{1} << (dots.depth - whole)) - 1;
#pragma GCC unroll 4
  for (int n = 0; n < kMany; ++n) {
    const int8_t* line = dots.weights + (j + n) * dots.weight_row;
    for (int64_t p = 0; p < whole; p += 64) {
#pragma GCC unroll 2
      for (int s = 0; s < kStreams; ++s) {
        const int8_t* at = line + s * apart * dots.weight_row + p;
        dots.ahead.fetch(at);
        add_products(dots, p, load_bytes(at), n, sum[s]);
      }
    }
    for (int s = 0; s < kStreams && rest != 0; ++s) {
      const int8_t* at = line + s * apart * dots.weight_row + whole;
      add_products(dots, whole, _mm512_maskz_loadu_epi8(rest, at), n, sum[s]);
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    const int64_t first = j + s * apart;
    for (int i = 0; i < kFew; ++i) {
      if constexpr (kMany == 4) {
        __m256i halves[4];
        for (int n = 0; n < 4; ++n) halves[n] = added_halves(sum[s][i][n]);
        const auto* zeros = reinterpret_cast<const __m128i*>(dots.finish.column_sums + first);
        finish_four(dots, i, first,
                    _mm_sub_epi32(sums_of(halves), _mm_mullo_epi32(_mm_set1_epi32(kZero), _mm_loadu_si128(zeros))));
      } else {
        const int32_t total = sum_lanes(sum[s][i][0]) - kZero * dots.finish.column_sums[first];
        dots.y[i * dots.y_row + first] = int8_finished(dots.finish, i, first, total);
      }
    }
  }
}

template <int kFew>
void dot_lines(const Int8Dots& dots) {
  const int64_t apart = lines_apart(dots.lines, dots.weight_row, 4);
  int64_t j = 0;
  for (; j < apart; j += 4) dot_tile<kFew, 4, 2>(dots, j, apart);
  for (j = 2 * apart; j + 4 <= dots.lines; j += 4) dot_tile<kFew, 4, 1>(dots, j, 0);
  for (; j < dots.lines; ++j) dot_tile<kFew, 1, 1>(dots, j, 0);
}

void dots_vnni(const Int8Dots& dots) {
  with_known_rows<4>(dots.rows, [&](auto rows) { dot_lines<rows>(dots); });
}

/// The arithmetic of multiply_rows without its loads.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")]] double spin_vnni(int64_t steps, int32_t* sink) {
  constexpr int kSums = kRows * kVectors;
  __m512i sum[kSums], b[kVectors];
  const __m512i value = _mm512_set1_epi32(*sink);
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_epi32(i);
#pragma GCC unroll 3
  for (int i = 0; i < kVectors; ++i) b[i] = _mm512_set1_epi32(*sink + i);
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (int i = 0; i < kSums; ++i) {
      sum[i] = _mm512_dpbusd_epi32(sum[i], value, b[i % kVectors]);
      asm volatile("" : "+v"(sum[i]));  // without this, GCC 12 stores every sum after every step, at half the rate
    }
  }
  __m512i total = _mm512_setzero_si512();
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) total = _mm512_xor_si512(total, sum[i]);
  *sink ^= sum_lanes(total) & 1;
  return 2.0 * kSums * 64 * static_cast<double>(steps);
}

}  // namespace

const Int8Unit kInt8Vnni{.name = "avx512_vnni",
                         .rows = kRows,
                         .columns = kColumns,
                         .element = 1,
                         .dot_element = 1,
                         .zero = kZero,
                         .prepare = prepare_vnni,
                         .prepare_dots = prepare_vnni,
                         .pack = pack_vnni,
                         .multiply = multiply_vnni,
                         .dots = dots_vnni,
                         .spin = spin_vnni};

}  // namespace attend::cpu

#endif
