#include "attend/ops/reduce.h"

#include <gtest/gtest.h>

#include "attend/ops/shape.h"
#include "testing/gradients.h"
#include "testing/values.h"

namespace attend {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::expect_gradients;
using testing::expect_same_bits;
using testing::host_values;
using testing::Reader;

/// The sum over one axis of a rank-3 tensor, by definition.
std::vector<double> naive_sum(const Tensor& x, int64_t axis) {
  const Reader value(x);
  Shape kept = x.shape();
  kept[axis] = 1;
  std::vector<double> y(static_cast<size_t>(kept.numel()));
  const Strides strides = contiguous_strides(kept);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < x.dim(1); ++j) {
      for (int64_t k = 0; k < x.dim(2); ++k) {
        const std::array<int64_t, 3> at{axis == 0 ? 0 : i, axis == 1 ? 0 : j, axis == 2 ? 0 : k};
        y[static_cast<size_t>(at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2])] += value(i, j, k);
      }
    }
  }
  return y;
}

TEST(Sum, AnyAxisOfAnyStridesMatchesTheDefinition) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 31, 33}, Shape{2, 257, 5}, Shape{300, 2, 1030}, Shape{0, 3, 2},
                             Shape{2, 0, 3}, Shape{5, 1, 70000}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = host_values(shape, 1, dtype);
      for (const Tensor& view : {x, transpose(x, 0, 2), transpose(x, 1, 2)}) {
        for (int64_t axis = 0; axis < 3; ++axis) {
          expect_close(sum(view, axis, true), naive_sum(view, axis), dtype == DType::f32 ? 2e-4 : 1e-11);
        }
      }
    }
  }
}

TEST(Sum, AllElements) {
  const Tensor x = host_values({257, 33, 31}, 5, DType::f32);
  double expected = 0;
  for (double value : x.to_vector<double>()) expected += value;
  EXPECT_NEAR(sum(x).item(), expected, 1e-3);
  EXPECT_NEAR(mean(x).item(), expected / 262911, 1e-8);
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(zeros({0, 4})).item(), 0);
  EXPECT_EQ(sum(expand(ones({}), {3, 1000})).item(), 3000);
}

TEST(Sum, IsAccurateInFloat) {
  // A sequential sum in float stops growing at 2^24 = 16.8 million.
  EXPECT_EQ(sum(expand(full({1}, 3), {10000000})).item(), 3e7);
  EXPECT_EQ(sum(full({20000000}, 1)).item(), 2e7);
  EXPECT_EQ(sum(full({20000000, 1}, 1), 0).item(), 2e7);
}

TEST(Sum, InfinityStays) {
  Tensor x = zeros({40});
  testing::set_element(x, 7, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(sum(x).item(), -std::numeric_limits<double>::infinity());
}

TEST(Sum, Gradients) {
  const Tensor x = host_values({2, 3, 4}, 2);
  expect_gradients([](const std::vector<Tensor>& in) { return sum(in[0]); }, {x});
  expect_gradients([](const std::vector<Tensor>& in) { return mean(in[0]); }, {x});
  for (int64_t axis = -3; axis < 3; ++axis) {
    expect_gradients([&](const std::vector<Tensor>& in) { return sum(in[0], axis); }, {x});
    expect_gradients([&](const std::vector<Tensor>& in) { return mean(in[0], axis, true); }, {x});
  }
}

TEST(Sum, SameBitsOnAnyNumberOfThreads) {
  const Tensor x = host_values({600, 3000}, 3, DType::f32);
  expect_same_bits([](const std::vector<Tensor>& in) { return sum(in[0]); }, {x});
  expect_same_bits([](const std::vector<Tensor>& in) { return sum(in[0], 0); }, {x});
  expect_same_bits([](const std::vector<Tensor>& in) { return mean(in[0], 1); }, {x});
}

TEST(Sum, TrailingRowsOfZerosChangeNoBit) {
  const Tensor x = host_values({300, 37}, 1, DType::f32);
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 129, 250}) {
    const Tensor own = x.as_strided({rows, 37}, {37, 1}, 0).clone();
    for (const int64_t more : {1, 2, 3, 47}) {
      Tensor padded = zeros({rows + more, 37});
      copy_values(own, padded.as_strided(own.shape(), own.strides(), 0));
      EXPECT_EQ(sum(padded, 0).to_vector(), sum(own, 0).to_vector()) << rows << " and " << more;
    }
  }
}

TEST(Sum, Errors) {
  expect_error<ShapeError>([] { sum(zeros({2, 3}), 2); }, "sum: axis 2 is out of range for shape [2, 3]");
  expect_error<ShapeError>([] { mean(zeros({2, 0}), 1); }, "mean: expected at least one element, got shape [2, 0]");
  expect_error<ShapeError>([] { sum(arange(3)); }, "sum: x must be f32 or f64, got i64");
}

}  // namespace
}  // namespace attend
