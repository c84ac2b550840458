#include "attend/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/kernels.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;

double naive(const Tensor& logits, const Tensor& target, const LossOptions& options) {
  const auto x = logits.to_vector<double>();
  const auto t = target.to_vector<int64_t>();
  const auto classes = static_cast<size_t>(logits.dim(-1));
  double sum = 0, count = 0;
  for (size_t row = 0; row < t.size(); ++row) {
    if (t[row] == options.ignore_index) continue;
    double total = 0;
    for (size_t c = 0; c < classes; ++c) total += std::exp(x[row * classes + c]);
    for (size_t c = 0; c < classes; ++c) {
      const double own = static_cast<int64_t>(c) == t[row] ? 1 - options.label_smoothing : 0;
      const double wanted = own + options.label_smoothing / static_cast<double>(classes);
      sum -= wanted * (x[row * classes + c] - std::log(total));
    }
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

Tensor targets(int64_t rows, int64_t classes) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i % 5 == 3 ? -100 : i * 7919 % classes);
  return tensor(values, {rows});
}

TEST(CrossEntropy, MatchesNaiveAcrossChunks) {
  for (int64_t classes : {1, 31, 33, 257, 4096, 9001}) {
    const Tensor x = uniform({6, classes}, -8, 8, {1, 0});
    for (double smoothing : {0.0, 0.1, 1.0}) {
      const LossOptions options{.label_smoothing = smoothing};
      const double expected = naive(x, targets(6, classes), options);
      EXPECT_NEAR(cross_entropy(x, targets(6, classes), options).item(), expected, 2e-6 * (1 + expected));
      EXPECT_NEAR(cross_entropy(to(x, DType::f64), targets(6, classes), options).item(), expected,
                  1e-12 * (1 + expected));
    }
  }
}

/// One pass gives the losses and the gradient of two, also in place.
TEST(CrossEntropy, KernelWithGradientIsBothKernels) {
  const CrossEntropyKernels& kernel = kernels(default_device()).cross_entropy;
  for (const int64_t classes : {1, 33, 1000, 4096, 9001, 28000, 50304}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const double smoothing : {0.0, 0.1}) {
        const CrossEntropyOptions options{.label_smoothing = smoothing};
        const Tensor x = uniform({6, classes}, -8, 8, {1, 0}, {dtype}), target = targets(6, classes);
        const Tensor index = to(target, x.device()), count = empty({}, {DType::i64});
        const Tensor losses = empty({6}, {DType::f64}), lse = empty({6}, {dtype}), dx = empty_like(x);
        kernel.count(rows(index), options.ignore_index, rows(count));
        kernel.forward(rows(x), rows(index), options, rows(losses), rows(lse));
        kernel.backward(rows(ones({}, {dtype})), rows(x), rows(index), rows(lse), rows(count), options, rows(dx));
        const Tensor own_losses = empty({6}, {DType::f64}), own = x.clone();
        kernel.with_gradient(rows(own), rows(index), rows(count), options, rows(own_losses), rows(own));
        expect_close(own_losses, losses.to_vector<double>(), 1e-6);
        expect_close(own, dx.to_vector<double>(), 1e-7);
      }
    }
  }
}

TEST(CrossEntropy, Gradients) {
  for (int64_t classes : {1, 31, 33}) {
    for (double smoothing : {0.0, 0.1}) {
      const Tensor target = targets(6, classes);
      expect_gradients([&](const auto& in) { return cross_entropy(in[0], target, {.label_smoothing = smoothing}); },
                       {random_f64({6, classes}, 1)});
    }
  }
}

TEST(CrossEntropy, SameBits) {
  const Tensor target = targets(67, 5000);
  expect_same_bits([&](const auto& in) { return cross_entropy(in[0], target, {.label_smoothing = 0.1}); },
                   {random_f32({67, 5000}, 1)});
}

TEST(CrossEntropy, IgnoredRowsDoNotCount) {
  Tensor x = parameter(tensor({1.0, 2.0, std::nan(""), 0.0}, {2, 2}));
  const Tensor loss = cross_entropy(x, tensor<int64_t>({1, 9}, {2}), {.ignore_index = 9});
  EXPECT_NEAR(loss.item(), std::log1p(std::exp(-1.0)), 1e-15);
  backward(loss);
  EXPECT_EQ(grad(x).to_vector<double>()[2], 0);
  EXPECT_EQ(grad(x).to_vector<double>()[3], 0);
  Tensor all = parameter(ones({2, 3}));
  const Tensor none = cross_entropy(all, tensor<int64_t>({-100, -100}, {2}));
  EXPECT_EQ(none.item(), 0);
  backward(none);
  EXPECT_EQ(grad(all).to_vector(), std::vector<float>(6, 0));
}

TEST(CrossEntropy, ExtremeLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x = parameter(tensor({-inf, 5.0f, 5.0f, 1e30f, -1e30f, 0.0f}, {2, 3}));
  const Tensor loss = cross_entropy(x, tensor<int64_t>({1, 0}, {2}));
  EXPECT_NEAR(loss.item(), std::log(2.0) / 2, 1e-6);
  backward(loss);
  const auto dx = grad(x).to_vector();
  EXPECT_EQ(dx[0], 0);
  EXPECT_NEAR(dx[1], -0.25, 1e-6);
  EXPECT_NEAR(dx[2], 0.25, 1e-6);
  EXPECT_EQ(dx[3], 0);
  // A first chunk of only −∞ must not affect the rest.
  std::vector<float> late(6000, -inf);
  late[5990] = 1;
  EXPECT_EQ(cross_entropy(tensor(late, {1, 6000}), tensor<int64_t>({5990}, {1})).item(), 0);
}

TEST(CrossEntropy, Errors) {
  const Tensor x = ones({2, 3});
  expect_error<ShapeError>(
      [&] {
        cross_entropy(x, tensor<int64_t>({0, 3}, {2}));
      },
      "cross_entropy: target 3 at row 1 is not in [0, 3) nor ignore_index -100");
  expect_error<ShapeError>([&] { cross_entropy(x, arange(3)); },
                           "cross_entropy: logits [2, 3] need a target of shape [2], got [3]");
  expect_error<ShapeError>([&] { cross_entropy(x, ones({2})); }, "cross_entropy: target must be i64, got f32");
  expect_error<ShapeError>([&] { cross_entropy(x, arange(2), {.label_smoothing = 2}); },
                           "cross_entropy: label_smoothing must be in [0, 1], got 2");
  EXPECT_EQ(cross_entropy(empty({0, 3}), arange(0)).item(), 0);
}

}  // namespace
}  // namespace attend
