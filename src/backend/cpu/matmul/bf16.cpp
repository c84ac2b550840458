#include "backend/cpu/matmul/bf16.h"

#include <algorithm>
#include <atomic>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/instruction_set.h"

namespace attend::cpu {
namespace {

// The same as to_bfloat16, defined here so that it can be inlined and vectorised.
inline uint32_t rounded(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t even = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : even;  // NaN stays NaN
}

inline float lower_half(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
inline float upper_half(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

void round_plain(const float* from, int64_t count, uint32_t* to) {
  for (int64_t i = 0; i < count / 2; ++i) to[i] = rounded(from[2 * i]) | rounded(from[2 * i + 1]) << 16;
  if (count % 2 != 0) to[count / 2] = rounded(from[count - 1]);
}

void round_pairs_plain(const float* low, const float* high, int64_t count, uint32_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = rounded(low[i]) | rounded(high[i]) << 16;
}

void nothing() {}

/// The same sums without special instructions: the reference for the other units.
void multiply_plain(const Bf16Block& block) {
  for (int64_t i = 0; i < kBf16Block; ++i) {
    float sums[kBf16Block];
    for (int64_t j = 0; j < kBf16Block; ++j) sums[j] = block.start ? block.start[i * block.start_row + j] : 0;
    for (int64_t p = 0; p < block.depth; p += 2) {
      const uint32_t a = block.a[i * block.a_row + p / 2], *b = block.b + p / 2 * kBf16Block;
      for (int64_t j = 0; j < kBf16Block; ++j) {
        sums[j] += lower_half(a) * lower_half(b[j]) + upper_half(a) * upper_half(b[j]);
      }
    }
    for (int64_t j = 0; j < kBf16Block; ++j) block.c[i * block.c_row + j] = sums[j];
  }
}

double spin_plain(int64_t steps, float* sink) {
  float sums[16] = {};
  for (int64_t step = 0; step < steps; ++step) {
    for (float& sum : sums) sum += *sink * static_cast<float>(step & 127);
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  *sink = total > *sink ? 1.0f : 0.5f;
  return 2.0 * 16 * static_cast<double>(steps);
}

constexpr Bf16Unit kPlain{"plain", round_plain, round_pairs_plain, nothing, nothing, multiply_plain, spin_plain};

#if defined(__x86_64__)

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void round_avx512(const float* from, int64_t count,
                                                                          uint32_t* to) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const auto both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + i / 2, (__m512i)both);
  }
  round_plain(from + i, count - i, to + i / 2);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void round_pairs_avx512(const float* low, const float* high,
                                                                                int64_t count, uint32_t* to) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    // Masked intrinsics, because GCC 12 warns about uninitialised values inside its own unmasked ones.
    const auto lower = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(low + i));
    const auto upper = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(high + i));
    const __m512i shifted = _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, upper), 16);
    _mm512_storeu_si512(to + i, _mm512_or_si512(_mm512_maskz_cvtepu16_epi32(0xffff, lower), shifted));
  }
  round_pairs_plain(low + i, high + i, count - i, to + i);
}

/// Eight rows at a time: 16 sums, two vectors of b, and one broadcast pair of a.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void multiply_avx512(const Bf16Block& block) {
  constexpr int kRows = 8;
  const char *ahead = block.ahead, *const ahead_end = ahead + 64 * block.ahead_lines;
  for (int64_t first = 0; first < block.rows; first += kRows) {
    __m512 sum[kRows][2];
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const float* start = block.start ? block.start + (first + m) * block.start_row : nullptr;
      sum[m][0] = start ? _mm512_loadu_ps(start) : _mm512_setzero_ps();
      sum[m][1] = start ? _mm512_loadu_ps(start + 16) : _mm512_setzero_ps();
    }
    const uint32_t* a = block.a + first * block.a_row;
    const uint32_t* b = block.b;
    for (int64_t p = 0; p < block.depth; p += 2, ++a, b += kBf16Block) {
      if (ahead < ahead_end) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += 64;
      }
      const auto left = (__m512bh)_mm512_loadu_si512(b), right = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        const auto value = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[m * block.a_row]));
        sum[m][0] = _mm512_dpbf16_ps(sum[m][0], value, left);
        sum[m][1] = _mm512_dpbf16_ps(sum[m][1], value, right);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      _mm512_storeu_ps(block.c + (first + m) * block.c_row, sum[m][0]);
      _mm512_storeu_ps(block.c + (first + m) * block.c_row + 16, sum[m][1]);
    }
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] double spin_avx512(int64_t steps, float* sink) {
  constexpr int kSums = 16;
  const auto value = (__m512bh)_mm512_set1_epi32(static_cast<int>(*sink)), factor = value;
  __m512 sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], value, factor);
  }
  __m512 total = _mm512_setzero_ps();  // the sum of all: the compiler would remove a sum that is never read
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) total = _mm512_add_ps(total, sum[i]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, total);
  *sink = lanes[0] > 0 ? 1.0f : 0.5f;
  return 2.0 * kSums * 32 * static_cast<double>(steps);
}

constexpr Bf16Unit kAvx512{.name = "avx512_bf16",
                           .round = round_avx512,
                           .round_pairs = round_pairs_avx512,
                           .begin = nothing,
                           .end = nothing,
                           .multiply = multiply_avx512,
                           .spin = spin_avx512,
                           .multiply_lines = multiply_lines_avx512};

/// Shapes of the eight tile registers: 16 rows of 64 bytes each.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

[[gnu::target("amx-tile,amx-bf16")]] void begin_amx() {
  static constexpr TileShapes kShapes;
  _tile_loadconfig(&kShapes);
}
[[gnu::target("amx-tile,amx-bf16")]] void end_amx() { _tile_release(); }

/// Tiles 0 to 3 hold the four quarters of c, tiles 4 and 5 rows of a, tiles 6 and 7 columns of b.
[[gnu::target("amx-tile,amx-bf16")]] void multiply_amx(const Bf16Block& block) {
  constexpr int64_t kHalf = kBf16Block / 2, kBRow = kBf16Block * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t a_bytes = block.a_row * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t c_bytes = block.c_row * static_cast<int64_t>(sizeof(float));
  if (block.start != nullptr) {
    const int64_t bytes = block.start_row * static_cast<int64_t>(sizeof(float));
    const float* lower = block.start + kHalf * block.start_row;
    _tile_loadd(0, block.start, bytes);
    _tile_loadd(1, block.start + kHalf, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + kHalf, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const uint32_t *upper_a = block.a, *lower_a = block.a + kHalf * block.a_row, *b = block.b;
  const int64_t steps = block.depth / 32, lines = (block.ahead_lines + steps - 1) / std::max<int64_t>(1, steps);
  const char* ahead = block.ahead;
  for (int64_t p = 0; p < block.depth; p += 32, upper_a += 16, lower_a += 16, b += 16 * kBf16Block) {
    for (int64_t line = 0; line < lines; ++line, ahead += 64) __builtin_prefetch(ahead, 0, 2);
    _tile_loadd(6, b, kBRow);
    _tile_loadd(4, upper_a, a_bytes);
    _tile_loadd(7, b + kHalf, kBRow);
    _tile_loadd(5, lower_a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float* lower_c = block.c + kHalf * block.c_row;
  _tile_stored(0, block.c, c_bytes);
  _tile_stored(1, block.c + kHalf, c_bytes);
  _tile_stored(2, lower_c, c_bytes);
  _tile_stored(3, lower_c + kHalf, c_bytes);
}

[[gnu::target("amx-tile,amx-bf16")]] double spin_amx(int64_t steps, float* sink) {
  alignas(64) static constexpr uint32_t kZeros[16 * 16] = {};
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, kZeros, 64);
  _tile_loadd(5, kZeros, 64);
  _tile_loadd(6, kZeros, 64);
  _tile_loadd(7, kZeros, 64);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[16 * 16];
  _tile_stored(0, sums, 64);
  *sink += sums[0];
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(steps);
}

constexpr Bf16Unit kAmx{"amx_bf16", round_avx512, round_pairs_avx512, begin_amx, end_amx, multiply_amx, spin_amx};

#endif

/// Null if f32 is faster. Per specification, vdpbf16ps has twice the rate of FMAs on AMD cores. On Intel cores it has
/// half the rate (measured on Sapphire Rapids), but these have AMX.
const Bf16Unit* fastest_unit() {
#if defined(__x86_64__)
  if (may_use(InstructionSet::amx)) return &kAmx;
  if (may_use(InstructionSet::avx512bf16) && __builtin_cpu_is("amd")) return &kAvx512;
#endif
  return nullptr;
}

std::atomic<const Bf16Unit*> chosen_for_test{nullptr};

}  // namespace

void multiply_edge(const Bf16Unit& unit, Bf16Block block, int64_t rows, int64_t columns) {
  alignas(64) float sums[kBf16Block * kBf16Block] = {};
  float* const c = block.c;
  const int64_t c_row = block.c_row;
  for (int64_t i = 0; i < rows && block.start != nullptr; ++i) {
    std::copy_n(block.start + i * block.start_row, columns, sums + i * kBf16Block);
  }
  block.rows = rows;
  block.start = block.c = sums;
  block.start_row = block.c_row = kBf16Block;
  unit.multiply(block);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(sums + i * kBf16Block, columns, c + i * c_row);
}

const Bf16Unit* bf16_unit() {
  static const Bf16Unit* const unit = fastest_unit();
  const Bf16Unit* chosen = chosen_for_test.load(std::memory_order_relaxed);
  return chosen != nullptr ? chosen : unit;
}

std::vector<const Bf16Unit*> bf16_units_for_test() {
  std::vector<const Bf16Unit*> units{&kPlain};
#if defined(__x86_64__)
  if (may_use(InstructionSet::avx512bf16)) units.push_back(&kAvx512);
  if (may_use(InstructionSet::amx)) units.push_back(&kAmx);
#endif
  return units;
}

void set_bf16_unit_for_test(const Bf16Unit* unit) { chosen_for_test.store(unit); }

}  // namespace attend::cpu
