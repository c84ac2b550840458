#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "backend/cpu/matmul/fetch_ahead.h"

// Products of 8-bit integers with exact sums in 32 bits: the instructions that do them, behind one table for each set.
// A row of x is held as the set multiplies it ("prepared"); all sets give the same sums, so the same bits.
namespace attend::cpu {

/// Prepared rows and panels are padded with zeros to whole blocks of this many elements of k.
inline constexpr int64_t kInt8Step = 64;
inline constexpr int64_t kInt8MostRows = 8, kInt8MostColumns = 48;

/// What turns sums into results: y(i, j) = sum(i, j) · (row_factors[i] · column_factors[j]) + bias[j], the last two
/// steps one fused multiply-add. Where the unit's 0 is another number, `zero · column_sums[j]` is taken off the sum
/// first.
struct Int8Finish {
  const float* row_factors = nullptr;
  const float* column_factors = nullptr;
  const int32_t* column_sums = nullptr;
  const float* bias = nullptr;  ///< null: none
};

/// One result; the sum is without what stands for 0.
float int8_finished(const Int8Finish& finish, int64_t i, int64_t j, int32_t sum);

/// One register tile: c(i, j) = (c(i, j)) + Σ_p a(i, p) b(p, j), or what `finish` makes of it.
struct Int8Tile {
  int64_t rows = 0;            ///< 1 to the unit's rows; columns are the unit's
  int64_t depth = 0;           ///< of k, a multiple of kInt8Step
  const uint8_t* a = nullptr;  ///< prepared rows, a_row bytes apart
  int64_t a_row = 0;
  const uint8_t* b = nullptr;  ///< a packed panel
  int32_t* c = nullptr;        ///< becomes floats when finished
  int64_t c_row = 0;
  bool add = false;                    ///< to what c holds
  const Int8Finish* finish = nullptr;  ///< null: sums are left for the next part of k
};

/// Dot products of 1 to 4 rows prepared for them with any number of rows of weights, finished: y(i, j).
struct Int8Dots {
  int64_t rows = 0, lines = 0, depth = 0;  ///< depth: of the weights, any number
  const uint8_t* x = nullptr;
  int64_t x_row = 0;  ///< in bytes
  const int8_t* weights = nullptr;
  int64_t weight_row = 0;
  Int8Finish finish;
  float* y = nullptr;
  int64_t y_row = 0;
  StreamAhead ahead{};
};

/// What one set of instructions provides.
struct Int8Unit {
  const char* name;
  int64_t rows, columns;  ///< of its tile
  int64_t element;        ///< bytes of an element of prepared x and of a packed panel
  int64_t dot_element;    ///< of x prepared for dots
  int32_t zero;           ///< what stands for 0 in prepared x
  /// Rounds count values of x to −127 … 127 in steps of *factor, prepared and padded.
  void (*prepare)(const float* x, int64_t count, uint8_t* to, float* factor);
  void (*prepare_dots)(const float* x, int64_t count, uint8_t* to, float* factor);
  /// Rows first … of weights (lines of them are real, the rest of the panel zeros), k from `begin` on, `depth` of it.
  void (*pack)(const int8_t* weights, int64_t weight_row, int64_t lines, int64_t depth, uint8_t* to);
  void (*multiply)(const Int8Tile& tile);
  void (*dots)(const Int8Dots& dots);
  /// `steps` rounds of what multiply does in registers; returns the operations, for measuring the machine.
  double (*spin)(int64_t steps, int32_t* sink);
};

/// Calls use(rows) with a number that the compiler knows: `rows` is 1 to kMost.
template <int kMost, class Use>
void with_known_rows(int64_t rows, const Use& use) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_known_rows<kMost - 1>(rows, use);
  }
  use(std::integral_constant<int, kMost>{});
}

/// The fastest that instruction_set() allows.
const Int8Unit& int8_unit();

/// The bits of the largest magnitude of a row: magnitudes compare as integers do, infinities and NaN above all numbers.
int32_t int8_largest_bits(const float* x, int64_t count);

/// That magnitude / 127 and its inverse. NaN and 0 where the row holds a NaN or an infinity, so that
/// what is wrong with it shows in every result; 0 and 0 for zeros.
struct Int8Steps {
  float step, inverse;
};
Int8Steps int8_steps(int32_t largest_bits);

/// All that instruction_set() allows, plain C++ too: tests take each in turn, null puts the machine's own back.
std::vector<const Int8Unit*> int8_units_for_test();
void set_int8_unit_for_test(const Int8Unit* unit);

extern const Int8Unit kInt8Plain;
#if defined(__x86_64__)
extern const Int8Unit kInt8Avx2, kInt8Vnni;
#endif

}  // namespace attend::cpu
