#pragma once

#include <immintrin.h>

// What the sets of int8 instructions of x86 have in common.
namespace attend::cpu {

/// rows[j] becomes word j of each of the eight rows.
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

}  // namespace attend::cpu
