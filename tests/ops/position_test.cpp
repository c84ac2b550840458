#include "attend/ops/position.h"

#include <gtest/gtest.h>

#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

/// One row, rotated by hand.
std::vector<double> turned(std::vector<double> row, double position, const RopeOptions& options) {
  const auto dims = options.dims > 0 ? static_cast<size_t>(options.dims) : row.size();
  const std::vector<double> x = row;
  for (size_t i = 0; i < dims / 2; ++i) {
    const size_t a = options.interleaved ? 2 * i : i, b = options.interleaved ? 2 * i + 1 : i + dims / 2;
    const double frequency = options.frequencies
                                 ? options.frequencies.to_vector<double>()[i]
                                 : std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    const double angle = position * frequency;
    row[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
    row[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
  }
  return row;
}

void expect_rope(const Tensor& x, const RopeOptions& options, double tolerance) {
  const auto values = x.to_vector<double>();
  const auto dim = static_cast<size_t>(x.dim(-1)), length = static_cast<size_t>(x.dim(-2));
  const auto positions = options.positions ? options.positions.to_vector<int64_t>() : std::vector<int64_t>{};
  std::vector<double> expected;
  for (size_t row = 0; row < values.size() / dim; ++row) {
    const size_t at = row % length;
    const double position =
        static_cast<double>(positions.empty() ? options.offset + static_cast<int64_t>(at) : positions[at]);
    const auto begin = values.begin() + static_cast<int64_t>(row * dim);
    const auto y = turned(std::vector<double>(begin, begin + static_cast<int64_t>(dim)), position, options);
    expected.insert(expected.end(), y.begin(), y.end());
  }
  expect_close(rope(x, options), expected, tolerance);
}

TEST(Rope, MatchesEquationWithEveryOption) {
  for (bool interleaved : {false, true}) {
    for (int64_t dim : {2, 32, 66}) {
      const Tensor x = random_f64({2, 3, 5, dim}, 1);
      expect_rope(x, {.interleaved = interleaved}, 1e-13);
      expect_rope(x, {.base = 500.0, .offset = 1000, .interleaved = interleaved}, 1e-12);
      expect_rope(x, {.interleaved = interleaved, .dims = 2}, 1e-13);
      expect_rope(x, {.interleaved = interleaved, .positions = tensor<int64_t>({9, 0, 3, 3, 100}, {5})}, 1e-12);
      expect_rope(x, {.interleaved = interleaved, .frequencies = random_f64({dim / 2}, 2)}, 1e-13);
      expect_rope(to(x, DType::f32), {.offset = 4000, .interleaved = interleaved}, 1e-6);
    }
  }
}

TEST(Rope, ReadsTransposedHeadsInPlace) {
  const Tensor x = random_f64({2, 5, 3, 8}, 1);  // [batch, length, heads, dim]
  const Tensor heads = x.as_strided({2, 3, 5, 8}, {120, 8, 24, 1}, 0);
  EXPECT_EQ(rope(heads).to_vector<double>(), rope(heads.clone()).to_vector<double>());
  const Tensor columns = x.as_strided({8, 30}, {1, 8}, 0);
  EXPECT_EQ(rope(columns).to_vector<double>(), rope(columns.clone()).to_vector<double>());
}

TEST(Rope, GradientsAndBits) {
  for (bool interleaved : {false, true}) {
    const RopeOptions options{.offset = 3, .interleaved = interleaved, .dims = 4};
    expect_gradients([&](const auto& in) { return rope(in[0], options); }, {random_f64({2, 3, 6}, 1)});
    expect_same_bits([&](const auto& in) { return rope(in[0], options); }, {random_f32({2, 300, 66}, 1)});
  }
}

TEST(Rope, Errors) {
  expect_error<ShapeError>([] { rope(ones({3, 5})); }, "rope: the number of rotated features must be even, got 5");
  expect_error<ShapeError>([] { rope(ones({4})); }, "rope: x must be […, length, dim], got shape [4]");
  expect_error<ShapeError>([] { rope(ones({3, 4}), {.dims = 6}); }, "rope: dims must be in [0, 4], got 6");
  expect_error<ShapeError>(
      [] {
        rope(ones({3, 4}), {.positions = arange(2)});
      },
      "rope: positions must be i64 [3], got i64 [2]");
  expect_error<ShapeError>(
      [] {
        rope(ones({3, 4}), {.frequencies = ones({2})});
      },
      "rope: frequencies must be f64 [2], got f32 [2]");
  EXPECT_EQ(rope(empty({0, 4})).shape(), (Shape{0, 4}));
}

TEST(SinusoidalPositions, InterleavesSineAndCosine) {
  const auto table = sinusoidal_positions(3, 5, 100.0, DType::f64).to_vector<double>();
  for (int position = 0; position < 3; ++position) {
    for (int i = 0; i < 5; ++i) {
      const double angle = position / std::pow(100.0, (i / 2 * 2) / 5.0);
      EXPECT_NEAR(table[static_cast<size_t>(position * 5 + i)], i % 2 ? std::cos(angle) : std::sin(angle), 1e-15);
    }
  }
  EXPECT_EQ(sinusoidal_positions(0, 4).shape(), (Shape{0, 4}));
}

TEST(AlibiSlopes, PowersOfTwoAndBetween) {
  expect_close(alibi_slopes(8, DType::f64), {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625},
               1e-16);
  expect_close(alibi_slopes(1, DType::f64), {0.00390625}, 1e-16);
  // Six heads: four of the sequence for 4, then the 1st and 3rd of the sequence for 8.
  expect_close(alibi_slopes(6, DType::f64), {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}, 1e-16);
  expect_error<ShapeError>([] { alibi_slopes(0); }, "alibi_slopes: expected at least one head, got 0");
}

}  // namespace
}  // namespace attend
