#pragma once

#include <cstdint>
#include <vector>

// Products of bfloat16 with sums in f32: the instructions that do them, behind one table for each set.
namespace attend::cpu {

/// Blocks are this square; operands are padded with zeros to whole ones.
inline constexpr int64_t kBf16Block = 32;

/// One block of c[32, 32] = start + Σ_p a(i, p) b(p, j). Operands are held as words of two neighbours along p, the
/// first in the lower half.
struct Bf16Block {
  int64_t depth = 0;            ///< a multiple of 32
  const uint32_t* a = nullptr;  ///< a(i, p) is in a[i · a_row + p / 2]
  int64_t a_row = 0;
  const uint32_t* b = nullptr;   ///< b(p, j) is in b[p / 2 · 32 + j]
  const float* start = nullptr;  ///< what the sums begin with, rows start_row apart (0: one row for all); null: 0
  int64_t start_row = 0;
  float* c = nullptr;
  int64_t c_row = 0;
};

/// What one set of instructions provides.
struct Bf16Unit {
  const char* name;
  /// to[i] = the pair of from[2 i] and from[2 i + 1], rounded to the nearest, ties to even; 0 beyond `count`.
  void (*round)(const float* from, int64_t count, uint32_t* to);
  /// to[i] = the pair of low[i] and high[i].
  void (*round_pairs)(const float* low, const float* high, int64_t count, uint32_t* to);
  /// Before the first and after the last block on a thread.
  void (*begin)();
  void (*end)();
  void (*multiply)(const Bf16Block& block);
  /// `steps` rounds of what multiply does in registers, between begin and end; returns the operations, for measuring
  /// the machine.
  double (*spin)(int64_t steps, float* sink);
};

/// The fastest that instruction_set() allows; null where no instruction multiplies bf16.
const Bf16Unit* bf16_unit();

/// All that instruction_set() allows, plain C++ too: tests take each in turn, null puts the machine's own back.
std::vector<const Bf16Unit*> bf16_units_for_test();
void set_bf16_unit_for_test(const Bf16Unit* unit);

}  // namespace attend::cpu
