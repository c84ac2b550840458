#include "attend/ops/linear.h"

#include <gtest/gtest.h>

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/embedding.h"
#include "attend/ops/norm.h"
#include "attend/ops/shape.h"
#include "testing/gradients.h"
#include "testing/half_device.h"
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

TEST(Linear, AddsAResidual) {
  const Tensor x = host_values({3, 7, 33}, 1), weight = host_values({24, 33}, 2), bias = host_values({24}, 3);
  const Tensor residual = host_values({3, 7, 24}, 4);
  const std::vector<double> expected = (residual + linear(x, weight, bias)).to_vector<double>();
  expect_close(linear(x, weight, bias, residual), expected, 1e-12);
  expect_gradients([](const Inputs& in) { return linear(in[0], in[1], in[2], in[3]); },
                   {host_values({2, 3, 4}, 1), host_values({5, 4}, 2), host_values({5}, 3), host_values({2, 3, 5}, 4)});
}

/// A tensor that several ops read, with an op that passes its gradient on.
Tensor residual_stream(const Inputs& in) {
  const Tensor branch = linear(layer_norm(in[0], in[1], in[2]), in[3], {}, in[0]);
  const Tensor shared = linear(branch, in[3]) + linear(branch, in[4]) + linear(branch, in[3]);
  return linear(rms_norm(shared, in[1]), in[4], {}, shared) + embedding(tensor<int64_t>({2, 0, 2}, {3}), in[3]);
}

TEST(Linear, GradientsOfATensorThatManyOpsRead) {
  const Inputs inputs{host_values({3, 6}, 1), host_values({6}, 2), host_values({6}, 3), host_values({6, 6}, 4),
                      host_values({6, 6}, 5)};
  expect_gradients(residual_stream, inputs);
  expect_same_bits(residual_stream, inputs);
}

/// On a GPU, ops add to the sum of gradients in place.
TEST(Linear, GradientsOnADeviceAreThoseOfTheCpu) {
  const auto gradients = [](Device device) {
    Inputs leaves;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Shape shape = seed == 1 ? Shape{3, 6} : seed <= 3 ? Shape{6} : Shape{6, 6};
      leaves.push_back(parameter(to(host_values(shape, seed), device)));
    }
    const Tensor y = residual_stream(leaves);
    for (int run = 0; run < 2; ++run)
      backward(run == 0 ? y : residual_stream(leaves), to(testing::weights_like(y), device));
    std::vector<double> all;
    for (const Tensor& leaf : leaves) {
      for (const double value : grad(leaf).to_vector<double>()) all.push_back(value);
    }
    return all;
  };
  const std::vector<double> expected = gradients(kCpu), got = gradients(testing::half_device());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-11) << i;
}

TEST(LinearGeluLinear, IsTheThreeOps) {
  const Tensor x = host_values({2, 5, 12}, 1), residual = host_values({2, 5, 12}, 6);
  const LinearWeights up{host_values({40, 12}, 2), host_values({40}, 3)}, down{host_values({12, 40}, 4), {}};
  const Tensor hidden = gelu_tanh(linear(x, up.weight, up.bias));
  expect_close(linear_gelu_linear(x, up, down), linear(hidden, down.weight).to_vector<double>(), 1e-12);
  expect_close(linear_gelu_linear(x, up, down, residual), (residual + linear(hidden, down.weight)).to_vector<double>(),
               1e-12);
  expect_gradients(
      [](const Inputs& in) {
        return linear_gelu_linear(in[0], {in[1], in[2]}, {in[3], in[4]}, in[5]);
      },
      {host_values({2, 3, 4}, 1), host_values({7, 4}, 2), host_values({7}, 3), host_values({4, 7}, 4),
       host_values({4}, 5), host_values({2, 3, 4}, 6)});
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
