#pragma once

#include <immintrin.h>

#include <algorithm>

#include "backend/cpu/int8/int8.h"

// Helpers shared by the int8 kernels for x86.
namespace attend::cpu {

/// Transposes an 8 × 8 matrix of 32-bit words: rows[j] becomes word j of each of the eight rows.
[[gnu::target("avx2"), gnu::always_inline]] inline void turn_words(__m256i (&rows)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

/// int8_largest_bits with vector instructions.
[[gnu::target("avx2,fma")]] inline int32_t largest_bits(const float* x, int64_t count) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i most[4] = {};
  int64_t p = 0;
  for (; p + 32 <= count; p += 32) {
    for (int i = 0; i < 4; ++i) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + p + 8 * i));
      most[i] = _mm256_max_epi32(most[i], _mm256_and_si256(bits, magnitude));
    }
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes),
                     _mm256_max_epi32(_mm256_max_epi32(most[0], most[1]), _mm256_max_epi32(most[2], most[3])));
  return std::max(*std::max_element(lanes, lanes + 8), int8_largest_bits(x + p, count - p));
}

/// The sum of each of four vectors, as one vector.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m128i sums_of(const __m256i (&x)[4]) {
  const __m256i halves = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

/// Writes results j to j + 3 of row i from sums whose zero offset has been subtracted.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void finish_four(const Int8Dots& dots, int i, int64_t j,
                                                                        __m128i sums) {
  const Int8Finish& finish = dots.finish;
  const __m128 bias = finish.bias != nullptr ? _mm_loadu_ps(finish.bias + j) : _mm_setzero_ps();
  const __m128 factors = _mm_mul_ps(_mm_set1_ps(finish.row_factors[i]), _mm_loadu_ps(finish.column_factors + j));
  _mm_storeu_ps(dots.y + i * dots.y_row + j, _mm_fmadd_ps(_mm_cvtepi32_ps(sums), factors, bias));
}

}  // namespace attend::cpu
