#pragma once

#include <cstdint>
#include <vector>

#include "attend/base/dtype.h"

// Products of bfloat16 with sums in f32. Each instruction set has a table of functions, Bf16Unit.
namespace attend::cpu {

/// Rows and columns of a block. Operands are padded with zeros to whole blocks.
inline constexpr int64_t kBf16Block = 32;

/// One block of c[32, 32] = start + Σ_p a(i, p) b(p, j). Operands are stored as 32-bit words of two neighbours along p,
/// the first in the lower half.
struct Bf16Block {
  int64_t depth = 0;            ///< a multiple of 32
  int64_t rows = kBf16Block;    ///< how many rows of c are wanted; the others may be computed or left as they are
  const uint32_t* a = nullptr;  ///< a(i, p) is in a[i · a_row + p / 2]
  int64_t a_row = 0;
  const uint32_t* b = nullptr;   ///< b(p, j) is in b[p / 2 · 32 + j]
  const float* start = nullptr;  ///< initial sums, rows start_row apart (0: one row for all); null: 0
  int64_t start_row = 0;
  float* c = nullptr;
  int64_t c_row = 0;
  const char* ahead = nullptr;  ///< `ahead_lines` cache lines to prefetch meanwhile; null: none
  int64_t ahead_lines = 0;
};

/// y(i, j) = bias[j] + Σ_p x(i, p) w(j, p) for a few rows of x and any number of lines of weights, with the sums of
/// `Bf16Unit::multiply`.
struct Bf16Lines {
  int64_t rows = 0, lines = 0, depth = 0;  ///< rows of x, 1 to kBf16FewRows; rows of weights; length of a row
  const uint32_t* x = nullptr;             ///< rounded pairs, padded with zeros to a multiple of 32 elements
  int64_t x_row = 0;                       ///< in words
  const BFloat16* weights = nullptr;
  int64_t weight_row = 0;
  const float* bias = nullptr;  ///< null: 0
  float* y = nullptr;
  int64_t y_row = 0;
  bool fetches_ahead = true;  ///< prefetch the weights that follow
};
inline constexpr int64_t kBf16FewRows = 8;

/// The functions of one instruction set.
struct Bf16Unit {
  const char* name;
  /// to[i] = the pair from[2 i], from[2 i + 1], rounded to nearest, ties to even; 0 beyond `count`.
  void (*round)(const float* from, int64_t count, uint32_t* to);
  /// to[i] = the pair low[i], high[i], rounded likewise.
  void (*round_pairs)(const float* low, const float* high, int64_t count, uint32_t* to);
  /// Called before the first and after the last block on a thread.
  void (*begin)();
  void (*end)();
  void (*multiply)(const Bf16Block& block);
  /// `steps` rounds of the arithmetic of `multiply`, in registers, between begin and end. Returns the number of
  /// operations, to measure the machine's peak.
  double (*spin)(int64_t steps, float* sink);
  void (*multiply_lines)(const Bf16Lines& lines) = nullptr;  ///< null: there is none; `multiply` takes whole blocks
};

/// Computes a block of which only `rows` rows and `columns` columns exist in c and start. Every sum has the bits that
/// it has in a whole block.
void multiply_edge(const Bf16Unit& unit, Bf16Block block, int64_t rows, int64_t columns);

#if defined(__x86_64__)
void multiply_lines_avx512(const Bf16Lines& lines);
#endif

/// The fastest unit that instruction_set() allows; null if none is faster than f32.
const Bf16Unit* bf16_unit();

/// All units that instruction_set() allows, including plain C++. Tests set each in turn; null restores the default.
std::vector<const Bf16Unit*> bf16_units_for_test();
void set_bf16_unit_for_test(const Bf16Unit* unit);

}  // namespace attend::cpu
