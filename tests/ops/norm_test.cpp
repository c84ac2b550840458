#include "attend/ops/norm.h"

#include <gtest/gtest.h>

#include "backend/kernels.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

std::vector<double> naive_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, bool centred) {
  auto y = x.to_vector<double>();
  const auto cols = static_cast<size_t>(x.dim(-1));
  const auto w = weight ? weight.to_vector<double>() : std::vector<double>(cols, 1);
  const auto b = bias ? bias.to_vector<double>() : std::vector<double>(cols, 0);
  for (size_t row = 0; row < y.size(); row += cols) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < cols; ++i) mean += centred ? y[row + i] / static_cast<double>(cols) : 0;
    for (size_t i = 0; i < cols; ++i) square += (y[row + i] - mean) * (y[row + i] - mean) / static_cast<double>(cols);
    for (size_t i = 0; i < cols; ++i) y[row + i] = (y[row + i] - mean) / std::sqrt(square + eps) * w[i] + b[i];
  }
  return y;
}

TEST(Norm, MatchesNaiveInBothTypes) {
  for (int64_t cols : {1, 31, 33, 257}) {
    for (DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f32 ? 2e-6 : 1e-13;
      const Tensor x = uniform({7, cols}, 2, 5, {1, 0}, {dtype});
      const Tensor w = uniform({cols}, -1, 1, {2, 0}, {dtype}), b = uniform({cols}, -1, 1, {3, 0}, {dtype});
      for (const Tensor& weight : {w, Tensor{}}) {
        for (const Tensor& bias : {b, Tensor{}}) {
          expect_close(layer_norm(x, weight, bias), naive_norm(x, weight, bias, 1e-5, true), tolerance);
        }
        expect_close(rms_norm(x, weight), naive_norm(x, weight, {}, 1e-6, false), tolerance);
      }
    }
  }
}

TEST(Norm, EpsilonCounts) {
  const Tensor x = tensor({1e-3, -1e-3}, {2});
  expect_close(layer_norm(x, {}, {}, {.eps = 1e-2}), naive_norm(x, {}, {}, 1e-2, true), 1e-15);
  expect_close(rms_norm(x, {}, {.eps = 1e-2}), naive_norm(x, {}, {}, 1e-2, false), 1e-15);
}

TEST(Norm, Gradients) {
  for (int64_t cols : {1, 31, 33}) {
    const Tensor x = random_f64({37, cols}, 2), w = random_f64({cols}, 3), b = random_f64({cols}, 4);
    expect_gradients([](const auto& in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b}, 1e-5);
    expect_gradients([](const auto& in) { return rms_norm(in[0], in[1]); }, {x, w}, 1e-5);
  }
  const Tensor x = random_f64({3, 5}, 2), w = random_f64({5}, 3);
  expect_gradients([](const auto& in) { return layer_norm(in[0], {}, {}); }, {x});
  expect_gradients([](const auto& in) { return rms_norm(in[0], {}); }, {x});
  // Only the parameters, and a bias without a weight.
  expect_gradients([&](const auto& in) { return layer_norm(x, in[0], {}); }, {w});
  expect_gradients([&](const auto& in) { return layer_norm(x, {}, in[0]); }, {w});
}

/// `added` is added to dx, also in place.
TEST(Norm, KernelsAddToTheGradient) {
  const NormKernels& kernel = kernels(default_device()).norm;
  for (const int64_t cols : {1, 8, 31, 257, 768, 1024, 3000, 20000}) {
    for (const bool centred : {true, false}) {
      const Tensor x = random_f32({9, cols}, 1), dy = random_f32({9, cols}, 2), w = random_f32({cols}, 3);
      const Tensor added = random_f32({9, cols}, 4), y = empty_like(x), mean = zeros({9}), rstd = zeros({9});
      const auto gradient = [&](const Tensor& before, const Tensor& dx) {
        if (centred) {
          kernel.layer_forward(rows(x), rows(w), {}, 1e-5, rows(y), rows(mean), rows(rstd));
          kernel.layer_backward(rows(dy), rows(x), rows(w), rows(mean), rows(rstd), rows_or_empty(before), rows(dx), {},
                                {});
        } else {
          kernel.rms_forward(rows(x), rows(w), 1e-5, rows(y), rows(rstd));
          kernel.rms_backward(rows(dy), rows(x), rows(w), rows(rstd), rows_or_empty(before), rows(dx), {});
        }
        return dx.to_vector<double>();
      };
      std::vector<double> expected = gradient({}, empty_like(x));
      const auto before = added.to_vector<double>();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
      const Tensor dx = empty_like(x);
      gradient(added, dx);
      expect_close(dx, expected, 1e-5);
      const Tensor own = added.clone();
      EXPECT_EQ(gradient(own, own), dx.to_vector<double>());
    }
  }
}

TEST(Norm, SameBits) {
  const Tensor x = random_f32({2049, 65}, 2), w = random_f32({65}, 3), b = random_f32({65}, 4);
  expect_same_bits([](const auto& in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b});
  expect_same_bits([](const auto& in) { return rms_norm(in[0], in[1]); }, {x, w});
}

TEST(Norm, ConstantRowAndEmpty) {
  const Tensor constant = full({2, 33}, 1e4);
  for (float value : layer_norm(constant, {}, {}).to_vector()) EXPECT_EQ(value, 0);
  Tensor x = parameter(empty({0, 4})), w = parameter(ones({4}));
  backward(layer_norm(x, w, {}), empty({0, 4}));
  EXPECT_EQ(grad(w).to_vector(), std::vector<float>(4, 0));
}

TEST(Norm, Errors) {
  const Tensor x = ones({2, 4});
  expect_error<ShapeError>([&] { layer_norm(x, ones({3}), {}); }, "layer_norm: weight must have shape [4], got [3]");
  expect_error<ShapeError>(
      [&] {
        layer_norm(x, ones({4}), ones({1, 4}));
      },
      "layer_norm: bias must have shape [4], got [1, 4]");
  expect_error<ShapeError>([&] { rms_norm(x, ones({4}, {DType::f64})); }, "rms_norm: weight is f64 but x is f32");
  expect_error<ShapeError>(
      [&] {
        rms_norm(ones({2, 0}), {});
      },
      "rms_norm: last axis must not be empty, got shape [2, 0]");
}

}  // namespace
}  // namespace attend
