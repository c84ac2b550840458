#include "attend/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "attend/ops/arithmetic.h"
#include "attend/ops/linear.h"
#include "attend/ops/shape.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

/// Targets of which every fifth is ignored.
Tensor targets(int64_t rows, int64_t classes) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i % 5 == 3 ? -100 : i * 7919 % classes);
  return tensor(values, {rows});
}

/// The loss and the gradients of all inputs, for `f` on new leaves. The loss is used three times, so dloss is 3.
std::vector<std::vector<double>> loss_and_gradients(const Inputs& inputs, const TensorFunction& f) {
  Inputs leaves;
  for (const Tensor& input : inputs) leaves.push_back(input ? parameter(input.clone()) : Tensor{});
  const Tensor loss = f(leaves);
  backward(multiply(loss, full({}, 3, {loss.dtype()})));
  std::vector<std::vector<double>> result{{loss.item()}};
  for (const Tensor& leaf : leaves) {
    if (leaf) result.push_back(grad(leaf).to_vector<double>());
  }
  return result;
}

struct Sizes {
  int64_t rows, dim, classes;
};

void expect_like_two_ops(const Sizes& s, DType dtype, const LossOptions& options, bool with_bias, double tolerance) {
  const Tensor target = targets(s.rows, s.classes);
  const Inputs inputs{to(random_f64({s.rows, s.dim}, 1), dtype), to(random_f64({s.classes, s.dim}, 2), dtype),
                      with_bias ? to(random_f64({s.classes}, 3), dtype) : Tensor{}};
  const auto expected = loss_and_gradients(
      inputs, [&](const Inputs& in) { return cross_entropy(linear(in[0], in[1], in[2]), target, options); });
  const auto got = loss_and_gradients(
      inputs, [&](const Inputs& in) { return linear_cross_entropy(in[0], in[1], in[2], target, options); });
  ASSERT_EQ(got.size(), expected.size());
  for (size_t n = 0; n < got.size(); ++n) {
    ASSERT_EQ(got[n].size(), expected[n].size());
    for (size_t i = 0; i < got[n].size(); ++i) {
      ASSERT_NEAR(got[n][i], expected[n][i], tolerance) << "result " << n << ", element " << i;
    }
  }
}

// 1,300 rows give three chunks; with 400,000 classes a chunk has fewer rows.
TEST(LinearCrossEntropy, MatchesTheTwoOps) {
  for (const Sizes& s : std::initializer_list<Sizes>{{1, 1, 1}, {6, 31, 33}, {257, 16, 257}, {1300, 5, 31}}) {
    for (double smoothing : {0.0, 0.1, 1.0}) {
      for (bool with_bias : {true, false}) {
        expect_like_two_ops(s, DType::f64, {.label_smoothing = smoothing}, with_bias, 1e-13);
        expect_like_two_ops(s, DType::f32, {.label_smoothing = smoothing}, with_bias, 2e-6);
      }
    }
  }
  expect_like_two_ops({150, 2, 400000}, DType::f32, {}, true, 2e-6);
}

TEST(LinearCrossEntropy, Gradients) {
  for (double smoothing : {0.0, 0.1}) {
    const Tensor target = targets(7, 9);
    expect_gradients(
        [&](const Inputs& in) {
          return linear_cross_entropy(in[0], in[1], in[2], target, {.label_smoothing = smoothing});
        },
        {random_f64({7, 3}, 1), random_f64({9, 3}, 2), random_f64({9}, 3)});
  }
}

TEST(LinearCrossEntropy, TakesAnyLeadingAxesAndStrides) {
  const Tensor target = reshape(targets(6, 5), {2, 3});
  const auto f = [&](const Inputs& in) {
    return linear_cross_entropy(transpose(in[0], 0, 1), transpose(in[1], 0, 1), {}, target);
  };
  const Inputs inputs{random_f64({3, 2, 4}, 1), random_f64({4, 5}, 2)};
  expect_gradients(f, inputs);
  const Tensor logits = linear(transpose(inputs[0], 0, 1), transpose(inputs[1], 0, 1));
  EXPECT_NEAR(f(inputs).item(), cross_entropy(logits, target).item(), 1e-14);
}

TEST(LinearCrossEntropy, SameBits) {
  const Tensor target = targets(700, 501);
  expect_same_bits(
      [&](const Inputs& in) { return linear_cross_entropy(in[0], in[1], in[2], target, {.label_smoothing = 0.1}); },
      {random_f32({700, 33}, 1), random_f32({501, 33}, 2), random_f32({501}, 3)});
}

TEST(LinearCrossEntropy, IgnoredRowsAreNeverRead) {
  const Tensor x = parameter(tensor({1.0, 2.0, std::nan(""), 0.0}, {2, 2}));
  const Tensor weight = parameter(tensor({1.0, 0.0, 0.0, 1.0}, {2, 2}));
  const Tensor loss = linear_cross_entropy(x, weight, {}, tensor<int64_t>({1, 9}, {2}), {.ignore_index = 9});
  EXPECT_NEAR(loss.item(), std::log1p(std::exp(-1.0)), 1e-15);
  backward(loss);
  EXPECT_EQ(grad(x).to_vector<double>()[2], 0);
  EXPECT_EQ(grad(x).to_vector<double>()[3], 0);
  for (double value : grad(weight).to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(LinearCrossEntropy, AllRowsIgnored) {
  for (int64_t count : {0, 2}) {
    const Tensor x = parameter(ones({count, 3})), weight = parameter(ones({4, 3})), bias = parameter(ones({4}));
    const Tensor loss =
        linear_cross_entropy(x, weight, bias, tensor(std::vector<int64_t>(static_cast<size_t>(count), -100), {count}));
    EXPECT_EQ(loss.item(), 0);
    backward(loss);
    EXPECT_EQ(grad(x).to_vector(), std::vector<float>(static_cast<size_t>(count * 3), 0));
    EXPECT_EQ(grad(weight).to_vector(), std::vector<float>(12, 0));
    EXPECT_EQ(grad(bias).to_vector(), std::vector<float>(4, 0));
  }
}

TEST(LinearCrossEntropy, MemoryDoesNotGrowWithTheRows) {
  const auto extra = [](int64_t count) {
    const Tensor x = parameter(random_f32({count, 2}, 1)), weight = parameter(random_f32({2000, 2}, 2));
    const size_t before = memory_stats(default_device()).live_bytes;
    reset_peak_memory(default_device());
    backward(linear_cross_entropy(x, weight, {}, zeros({count}, {DType::i64, kCpu})));
    return memory_stats(default_device()).peak_bytes - before;
  };
  const int64_t chunk = default_device() == kCpu ? 512 : 32768;  // a GPU takes more rows at once
  EXPECT_LT(extra(16 * chunk), 2 * extra(chunk));                // the logits of all rows would take 16 times as much
}

TEST(LinearCrossEntropy, ComputesOnlyRequiredGradients) {
  const Tensor x = random_f32({5, 3}, 1), weight = parameter(random_f32({4, 3}, 2)), bias = random_f32({4}, 3);
  backward(linear_cross_entropy(x, weight, bias, targets(5, 4)));
  EXPECT_TRUE(grad(weight));
  EXPECT_FALSE(grad(x));
  const NoGrad no_grad;
  EXPECT_FALSE(linear_cross_entropy(x, weight, bias, targets(5, 4)).variable());
}

TEST(LinearCrossEntropy, Errors) {
  const Tensor x = ones({2, 3}), weight = ones({4, 3});
  expect_error<ShapeError>(
      [&] {
        linear_cross_entropy(x, weight, {}, tensor<int64_t>({-100, 4}, {2}));
      },
      "linear_cross_entropy: target 4 at row 1 is not in [0, 4) nor ignore_index -100");
  expect_error<ShapeError>([&] { linear_cross_entropy(x, weight, {}, arange(3)); },
                           "linear_cross_entropy: x [2, 3] needs a target of shape [2], got [3]");
  expect_error<ShapeError>(
      [&] {
        linear_cross_entropy(x, ones({4, 2}), {}, arange(2));
      },
      "linear_cross_entropy: x has shape [2, 3] but weight [classes, dim] is [4, 2]");
  expect_error<ShapeError>([&] { linear_cross_entropy(x, weight, ones({3}), arange(2)); },
                           "linear_cross_entropy: bias must be [4] because weight is [4, 3], got [3]");
  expect_error<ShapeError>([&] { linear_cross_entropy(x, weight, {}, ones({2})); },
                           "linear_cross_entropy: target must be i64, got f32");
  expect_error<ShapeError>([&] { linear_cross_entropy(x, weight, {}, arange(2), {.label_smoothing = 2}); },
                           "linear_cross_entropy: label_smoothing must be in [0, 1], got 2");
}

}  // namespace
}  // namespace attend
