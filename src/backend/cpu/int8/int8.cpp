#include "backend/cpu/int8/int8.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/instruction_set.h"

namespace attend::cpu {
namespace {

constexpr int64_t kRows = 4, kColumns = 24;

int64_t padded(int64_t count) { return (count + kInt8Step - 1) / kInt8Step * kInt8Step; }

// Plain C++: prepared x is i8, and a panel is i8 [k][column].
void prepare_plain(const float* x, int64_t count, uint8_t* to, float* factor) {
  const auto [step, inverse] = int8_steps(int8_largest_bits(x, count));
  *factor = step;
  for (int64_t p = 0; p < count; ++p) to[p] = static_cast<uint8_t>(inverse == 0 ? 0 : std::lrintf(x[p] * inverse));
  std::fill(to + count, to + padded(count), uint8_t{0});
}

void pack_plain(const int8_t* weights, int64_t weight_row, int64_t lines, int64_t depth, uint8_t* to) {
  for (int64_t p = 0; p < padded(depth); ++p) {
    for (int64_t j = 0; j < kColumns; ++j) {
      to[p * kColumns + j] = p < depth && j < lines ? static_cast<uint8_t>(weights[j * weight_row + p]) : 0;
    }
  }
}

void multiply_plain(const Int8Tile& tile) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      int32_t& c = tile.c[i * tile.c_row + j];
      int32_t sum = tile.add ? c : 0;
      for (int64_t p = 0; p < tile.depth; ++p) {
        sum += static_cast<int8_t>(tile.a[i * tile.a_row + p]) * static_cast<int8_t>(tile.b[p * kColumns + j]);
      }
      c = tile.finish == nullptr ? sum : std::bit_cast<int32_t>(int8_finished(*tile.finish, i, j, sum));
    }
  }
}

void dots_plain(const Int8Dots& dots) {
  for (int64_t i = 0; i < dots.rows; ++i) {
    for (int64_t j = 0; j < dots.lines; ++j) {
      int32_t sum = 0;
      for (int64_t p = 0; p < dots.depth; ++p) {
        sum += static_cast<int8_t>(dots.x[i * dots.x_row + p]) * dots.weights[j * dots.weight_row + p];
      }
      dots.y[i * dots.y_row + j] = int8_finished(dots.finish, i, j, sum);
    }
  }
}

/// Runs multiply_plain on operands that stay in L1: only the real function shows how well the compiler optimises it. A
/// step is one row of the tile at one index of k.
double spin_plain(int64_t steps, int32_t* sink) {
  uint8_t a[kRows * kInt8Step], b[kInt8Step * kColumns];
  int32_t c[kRows * kColumns] = {};
  std::fill(std::begin(a), std::end(a), static_cast<uint8_t>(*sink + 1));
  std::fill(std::begin(b), std::end(b), static_cast<uint8_t>(*sink + 2));
  const Int8Tile tile{
      .rows = kRows, .depth = kInt8Step, .a = a, .a_row = kInt8Step, .b = b, .c = c, .c_row = kColumns, .add = true};
  for (int64_t step = 0; step < steps; step += kRows * kInt8Step) multiply_plain(tile);
  *sink ^= c[0] & 1;
  return 2.0 * kColumns * static_cast<double>(steps);
}

const Int8Unit& fastest_unit() {
#if defined(__x86_64__)
  if (may_use(InstructionSet::avx512) && __builtin_cpu_supports("avx512vnni")) return kInt8Vnni;
  if (may_use(InstructionSet::avx2)) return kInt8Avx2;
#endif
  return kInt8Plain;
}

std::atomic<const Int8Unit*> chosen_for_test{nullptr};

}  // namespace

const Int8Unit kInt8Plain{.name = "plain",
                          .rows = kRows,
                          .columns = kColumns,
                          .element = 1,
                          .dot_element = 1,
                          .zero = 0,
                          .prepare = prepare_plain,
                          .prepare_dots = prepare_plain,
                          .pack = pack_plain,
                          .multiply = multiply_plain,
                          .dots = dots_plain,
                          .spin = spin_plain};

int32_t int8_largest_bits(const float* x, int64_t count) {
  int32_t largest = 0;
  for (int64_t p = 0; p < count; ++p) largest = std::max(largest, std::bit_cast<int32_t>(x[p]) & 0x7fffffff);
  return largest;
}

Int8Steps int8_steps(int32_t largest) {
  const float most = std::bit_cast<float>(largest);
  if (!std::isfinite(most)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float step = most / 127, inverse = 127 / most;
  return std::isfinite(inverse) ? Int8Steps{step, inverse} : Int8Steps{0, 0};
}

float int8_finished(const Int8Finish& finish, int64_t i, int64_t j, int32_t sum) {
  return std::fma(static_cast<float>(sum), finish.row_factors[i] * finish.column_factors[j],
                  finish.bias != nullptr ? finish.bias[j] : 0.0f);
}

const Int8Unit& int8_unit() {
  static const Int8Unit& unit = fastest_unit();
  const Int8Unit* chosen = chosen_for_test.load(std::memory_order_relaxed);
  return chosen != nullptr ? *chosen : unit;
}

std::vector<const Int8Unit*> int8_units_for_test() {
  std::vector<const Int8Unit*> units{&kInt8Plain};
#if defined(__x86_64__)
  const Int8Unit* fastest = &fastest_unit();
  if (fastest != &kInt8Plain) units.push_back(&kInt8Avx2);
  if (fastest == &kInt8Vnni) units.push_back(&kInt8Vnni);
#endif
  return units;
}

void set_int8_unit_for_test(const Int8Unit* unit) { chosen_for_test.store(unit); }

}  // namespace attend::cpu
