#include "attend/nn/memory_attention.h"

#include <cmath>

#include "attend/ops/shape.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::expect_module_gradients;
using testing::in_f64;
using testing::random_f64;
using testing::values;

const Tensor kMask = bool_tensor(std::vector<uint8_t>{1, 0, 1, 0, 0, 0}, {2, 3});

BahdanauAttention additive() {
  Rng rng{.seed = 1};
  return BahdanauAttention::create({.state = 2, .memory = 4, .state_dim = 3}, rng);
}

TEST(BahdanauAttention, Gradients) {
  for (const Tensor& mask : {Tensor{}, kMask}) {
    expect_module_gradients(additive(), {random_f64({2, 2}, 1), random_f64({2, 3, 4}, 2)},
                            [mask](const BahdanauAttention& m, const auto& in) {
                              return m.forward({in[0], in[1], mask}).output;
                            });
  }
}

TEST(BahdanauAttention, AnEmptyRowGivesZero) {
  const auto result = in_f64(additive()).forward({random_f64({2, 2}, 1), random_f64({2, 3, 4}, 2), kMask});
  const auto context = values(result.output), weights = values(result.trace.weights().values);
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(context[i], 0);
  EXPECT_EQ(weights[1], 0);
  EXPECT_NEAR(weights[0] + weights[2], 1, 1e-12);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(weights[i], 0);
}

TEST(BahdanauAttention, SeveralStatesAndAProjectedMemory) {
  const auto module = in_f64(additive());
  const Tensor states = random_f64({2, 5, 2}, 1), memory = random_f64({2, 3, 4}, 2);
  const Tensor all = module.forward({states, memory, {}}, {}, module.project(memory)).output;
  ASSERT_EQ(all.shape(), (Shape{2, 5, 4}));
  for (int64_t i = 0; i < 5; ++i)
    expect_equal(select(all, 1, i), module.forward({select(states, 1, i), memory}).output);
}

TEST(BahdanauAttention, ErrorsSayWhatWasExpected) {
  expect_error<ShapeError>(
      [] {
        additive().forward({zeros({2, 2}), zeros({3, 3, 4})});
      },
      "BahdanauAttention: expected a memory of shape [2, length, width], got [3, 3, 4]");
  expect_error<ShapeError>(
      [] {
        additive().forward({zeros({2, 2}), zeros({2, 5, 4}), kMask});
      },
      "BahdanauAttention: expected a mask of shape [2, 5], got [2, 3]");
}

TEST(LuongAttention, DotIsSoftmaxOfProducts) {
  Rng rng;
  const auto module = LuongAttention::create({.state = 4, .memory = 4, .score = LuongScore::dot}, rng);
  const Tensor state = random_f64({1, 4}, 1), memory = random_f64({1, 3, 4}, 2);
  const auto s = values(state), h = values(memory);
  std::vector<double> weights, context(4);
  double total = 0;
  for (size_t j = 0; j < 3; ++j) {
    double score = 0;
    for (size_t i = 0; i < 4; ++i) score += s[i] * h[j * 4 + i];
    weights.push_back(std::exp(score));
    total += weights.back();
  }
  for (size_t j = 0; j < 3; ++j) {
    for (size_t i = 0; i < 4; ++i) context[i] += weights[j] / total * h[j * 4 + i];
  }
  testing::expect_close(module.forward({state, memory}).output, context, 1e-12);
}

TEST(LuongAttention, Gradients) {
  Rng rng{.seed = 2};
  const auto forward = [](const LuongAttention& m, const auto& in) { return m.forward({in[0], in[1], kMask}).output; };
  expect_module_gradients(LuongAttention::create({.state = 2, .memory = 4}, rng),
                          {random_f64({2, 2}, 1), random_f64({2, 3, 4}, 2)}, forward);
  expect_module_gradients(LuongAttention::create({.state = 4, .memory = 4, .score = LuongScore::dot}, rng),
                          {random_f64({2, 4}, 1), random_f64({2, 3, 4}, 2)}, forward);
  expect_error<ShapeError>([&] { LuongAttention::create({.state = 2, .memory = 4, .score = LuongScore::dot}, rng); },
                           "LuongAttention: dot scores need equal widths of state and memory, got 2 and 4");
}

}  // namespace
}  // namespace attend
