#include "attend/ops/linear.h"

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

using Inputs = std::vector<Tensor>;

TEST(Linear, MatchesItsEquation) {
  for (int64_t rows : {0, 1, 2, 5, 31, 257}) {
    for (int64_t in : {0, 1, 33, 300}) {
      const int64_t out = 37;
      const Tensor x = host_values({rows, in}, 1, DType::f32), weight = host_values({out, in}, 2, DType::f32);
      const Tensor bias = host_values({out}, 3, DType::f32);
      const Reader xs(x), ws(weight), bs(bias);
      std::vector<double> expected;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < out; ++j) {
          double value = bs(j);
          for (int64_t p = 0; p < in; ++p) value += xs(i, p) * ws(j, p);
          expected.push_back(value);
        }
      }
      expect_close(linear(x, weight, bias), expected, 3e-5);
    }
  }
}

TEST(Linear, KeepsLeadingAxes) {
  const Tensor weight = host_values({5, 3}, 1), bias = host_values({5}, 2);
  EXPECT_EQ(linear(host_values({2, 4, 3}, 3), weight, bias).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(linear(host_values({3}, 3), weight).shape(), (Shape{5}));
  EXPECT_EQ(linear(zeros({2, 0, 3}, {DType::f64}), weight, bias).shape(), (Shape{2, 0, 5}));
}

TEST(Linear, Gradients) {
  const auto f = [](const Inputs& in) { return linear(in[0], in[1], in[2]); };
  expect_gradients(f, {host_values({2, 3, 4}, 1), host_values({5, 4}, 2), host_values({5}, 3)});
  expect_gradients(f, {host_values({4}, 1), host_values({5, 4}, 2), host_values({5}, 3)});
  expect_gradients([](const Inputs& in) { return linear(transpose(in[0], 0, 1), in[1]); },
                   {host_values({3, 2, 4}, 1), host_values({5, 4}, 2)});
}

TEST(Linear, GradientsOfEmptyRowsAreZero) {
  const Tensor weight = parameter(host_values({5, 3}, 1)), bias = parameter(host_values({5}, 2));
  const Tensor y = linear(zeros({0, 3}, {DType::f64}), weight, bias);
  backward(y, zeros({0, 5}, {DType::f64}));
  expect_close(grad(weight), std::vector<double>(15, 0), 0);
  expect_close(grad(bias), std::vector<double>(5, 0), 0);
}

TEST(Linear, SameBitsOnAnyNumberOfThreads) {
  expect_same_bits([](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                   {host_values({130, 300}, 1, DType::f32), host_values({200, 300}, 2, DType::f32),
                    host_values({200}, 3, DType::f32)});
}

TEST(Linear, Errors) {
  expect_error<ShapeError>(
      [] {
        linear(zeros({2, 3}), zeros({5, 4}));
      },
      "linear: x has shape [2, 3] but weight [out, in] is [5, 4]");
  expect_error<ShapeError>(
      [] {
        linear(zeros({2, 3}), zeros({5, 3}), zeros({4}));
      },
      "linear: bias must be [5] because weight is [5, 3], got [4]");
  expect_error<ShapeError>(
      [] {
        linear(zeros({2, 3}), zeros({5, 3}, {DType::f64}));
      },
      "linear: weight is f64 but x is f32");
}

}  // namespace
}  // namespace attend
