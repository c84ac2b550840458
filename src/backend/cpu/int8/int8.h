#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "backend/cpu/matmul/fetch_ahead.h"

// Products of 8-bit integers with exact sums in 32 bits. Each instruction set has a table of functions, Int8Unit. Rows
// of x are converted ("prepared") to the layout that the set multiplies. All sets give the same sums, hence the same
// bits.
namespace attend::cpu {

/// Prepared rows and packed panels are padded with zeros to a multiple of this many elements of k.
inline constexpr int64_t kInt8Step = 64;
inline constexpr int64_t kInt8MostRows = 8, kInt8MostColumns = 48;

/// Converts sums to results: y(i, j) = sum(i, j) · (row_factors[i] · column_factors[j]) + bias[j], where the last
/// multiplication and the addition are one fused multiply-add. If the unit represents 0 by another number `zero`,
/// `zero · column_sums[j]` is subtracted from the sum first.
struct Int8Finish {
  const float* row_factors = nullptr;
  const float* column_factors = nullptr;
  const int32_t* column_sums = nullptr;
  const float* bias = nullptr;  ///< null: no bias
};

/// Computes one result from a sum whose zero offset has been subtracted.
float int8_finished(const Int8Finish& finish, int64_t i, int64_t j, int32_t sum);

/// One register tile: c(i, j) = Σ_p a(i, p) b(p, j), plus the old c(i, j) if `add`, then converted by `finish` if set.
struct Int8Tile {
  int64_t rows = 0;            ///< 1 to the unit's rows; the number of columns is the unit's
  int64_t depth = 0;           ///< length along k, a multiple of kInt8Step
  const uint8_t* a = nullptr;  ///< prepared rows, a_row bytes apart
  int64_t a_row = 0;
  const uint8_t* b = nullptr;  ///< a packed panel
  int32_t* c = nullptr;        ///< holds floats once finished
  int64_t c_row = 0;
  bool add = false;                    ///< add to the content of c
  const Int8Finish* finish = nullptr;  ///< null: leave sums for the next part of k
};

/// Finished dot products y(i, j) of 1 to 4 prepared rows of x (see prepare_dots) with any number of rows of weights.
struct Int8Dots {
  int64_t rows = 0, lines = 0, depth = 0;  ///< rows of x; rows of weights; length of a row of weights, any number
  const uint8_t* x = nullptr;
  int64_t x_row = 0;  ///< in bytes
  const int8_t* weights = nullptr;
  int64_t weight_row = 0;
  Int8Finish finish;
  float* y = nullptr;
  int64_t y_row = 0;
  StreamAhead ahead{};
};

/// The functions of one instruction set.
struct Int8Unit {
  const char* name;
  int64_t rows, columns;  ///< size of its tile
  int64_t element;        ///< bytes per element of prepared x and of a packed panel
  int64_t dot_element;    ///< bytes per element of x prepared for dots
  int32_t zero;           ///< the number that represents 0 in prepared x
  /// Rounds `count` values of x to −127 … 127 in steps of *factor. The output is prepared and padded.
  void (*prepare)(const float* x, int64_t count, uint8_t* to, float* factor);
  void (*prepare_dots)(const float* x, int64_t count, uint8_t* to, float* factor);
  /// Packs `lines` rows of weights, `depth` elements each, into a panel. The rest of the panel is filled with zeros.
  void (*pack)(const int8_t* weights, int64_t weight_row, int64_t lines, int64_t depth, uint8_t* to);
  void (*multiply)(const Int8Tile& tile);
  void (*dots)(const Int8Dots& dots);
  /// `steps` rounds of the arithmetic of `multiply`, in registers. Returns the number of operations, to measure the
  /// machine's peak.
  double (*spin)(int64_t steps, int32_t* sink);
};

/// Calls use(rows) with `rows`, 1 to kMost, as a compile-time constant.
template <int kMost, class Use>
void with_known_rows(int64_t rows, const Use& use) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_known_rows<kMost - 1>(rows, use);
  }
  use(std::integral_constant<int, kMost>{});
}

/// The fastest unit that instruction_set() allows.
const Int8Unit& int8_unit();

/// The bits of the largest magnitude of a row. Magnitudes compare like integers, with ∞ and NaN above all numbers.
int32_t int8_largest_bits(const float* x, int64_t count);

/// The largest magnitude / 127 and its inverse. If the row holds NaN or ∞: NaN and 0, so that every result of the row
/// is NaN. If the row is all zeros: 0 and 0.
struct Int8Steps {
  float step, inverse;
};
Int8Steps int8_steps(int32_t largest_bits);

/// All units that instruction_set() allows, including plain C++. Tests set each in turn; null restores the default.
std::vector<const Int8Unit*> int8_units_for_test();
void set_int8_unit_for_test(const Int8Unit* unit);

extern const Int8Unit kInt8Plain;
#if defined(__x86_64__)
extern const Int8Unit kInt8Avx2, kInt8Vnni;
#endif

}  // namespace attend::cpu
