// The small modules: Linear, Embedding, LearnedPositions, LayerNorm, RMSNorm, FeedForward, SelfAttentionBlock.

#include <cmath>

#include "attend/nn/embedding.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/linear.h"
#include "attend/nn/norm.h"
#include "attend/nn/self_attention_block.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::expect_module_gradients;
using testing::random_f64;

/// The largest magnitude and the mean of the values.
std::pair<double, double> range(const Tensor& x) {
  double largest = 0, total = 0;
  for (const double value : testing::values(x)) largest = std::max(largest, std::abs(value)), total += value;
  return {largest, total / static_cast<double>(x.numel())};
}

TEST(Linear, StartsWithinOneOverRootOfInputs) {
  Rng rng{.seed = 1};
  const Linear module = Linear::create({.in = 100, .out = 50}, rng);
  const auto [largest, mean] = range(module.weight);
  EXPECT_LE(largest, 0.1);
  EXPECT_GT(largest, 0.099);
  EXPECT_NEAR(mean, 0, 0.005);
  EXPECT_LE(range(module.bias).first, 0.1);
  EXPECT_FALSE(Linear::create({.in = 2, .out = 2, .bias = false}, rng).bias);
  EXPECT_NE(testing::values(module.weight), testing::values(Linear::create({.in = 100, .out = 50}, rng).weight));
}

TEST(Linear, Gradients) {
  Rng rng;
  expect_module_gradients(Linear::create({.in = 3, .out = 4}, rng), {random_f64({2, 5, 3}, 1)},
                          [](const Linear& m, const auto& in) { return m.forward(in[0]); });
}

TEST(Linear, RefusesEmptySizes) {
  Rng rng;
  expect_error<ShapeError>([&] { Linear::create({.in = 0, .out = 4}, rng); },
                           "Linear: in and out must be at least 1, got 0 and 4");
}

TEST(Embedding, StartsNormal) {
  Rng rng{.seed = 2};
  const auto values = testing::values(Embedding::create({.rows = 200, .dim = 50}, rng).weight);
  double squares = 0;
  for (const double value : values) squares += value * value;
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 1, 0.05);
}

TEST(Embedding, Gradients) {
  Rng rng;
  const Tensor ids = tensor<int64_t>({4, 0, 4, 2}, {2, 2});
  expect_module_gradients(Embedding::create({.rows = 5, .dim = 3}, rng), {},
                          [ids](const Embedding& m, const auto&) { return m.forward(ids); });
}

TEST(LearnedPositions, AddsTheRowsFromOffset) {
  Rng rng;
  const auto positions = LearnedPositions::create({.length = 6, .dim = 2}, rng);
  const Tensor y = positions.forward(zeros({3, 2, 2}), 4);
  const auto table = testing::values(positions.weight), got = testing::values(y);
  EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 4), std::vector<double>(table.begin() + 8, table.end()));
  expect_error<ShapeError>(
      [&] {
        positions.forward(zeros({1, 3, 2}), 4);
      },
      "LearnedPositions: positions 4 to 6 are outside the table of 6");
  expect_error<ShapeError>(
      [&] {
        positions.forward(zeros({1, 3, 4}));
      },
      "LearnedPositions: expected x of shape […, length, 2], got [1, 3, 4]");
}

TEST(Norms, GradientsWithAndWithoutParameters) {
  for (const bool affine : {true, false}) {
    expect_module_gradients(LayerNorm::create({.dim = 5, .weight = affine, .bias = affine}), {random_f64({3, 5}, 2)},
                            [](const LayerNorm& m, const auto& in) { return m.forward(in[0]); });
    expect_module_gradients(RMSNorm::create({.dim = 5, .weight = affine}), {random_f64({3, 5}, 3)},
                            [](const RMSNorm& m, const auto& in) { return m.forward(in[0]); });
  }
}

TEST(FeedForward, GradientsOfEveryKind) {
  for (const Activation kind : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                Activation::tanh, Activation::sigmoid, Activation::quick_gelu}) {
    for (const bool gated : {false, true}) {
      Rng rng{.seed = 5};
      const auto module = FeedForward::create({.dim = 3, .ffn_dim = 4, .activation = kind, .gated = gated}, rng);
      EXPECT_EQ(count_parameters(module), (gated ? 2 : 1) * 16 + 15);
      expect_module_gradients(module, {random_f64({2, 3}, 4)},
                              [](const FeedForward& m, const auto& in) { return m.forward(in[0]); });
    }
  }
}

TEST(FeedForward, DropsOutOnlyWithARandomGenerator) {
  Rng rng{.seed = 5};
  const auto module = FeedForward::create({.dim = 8, .ffn_dim = 64, .dropout = 0.5}, rng);
  const Tensor x = testing::random_f32({4, 8}, 1);
  Rng first{.seed = 9}, again{.seed = 9};
  const auto dropped = testing::values(module.forward(x, {.rng = &first}));
  EXPECT_NE(dropped, testing::values(module.forward(x)));
  EXPECT_EQ(dropped, testing::values(module.forward(x, {.rng = &again})));
  EXPECT_NE(dropped, testing::values(module.forward(x, {.rng = &first})));  // the next stream
}

TEST(SelfAttentionBlock, Gradients) {
  Rng rng{.seed = 6};
  const auto module = SelfAttentionBlock::create({.attention = {.dim = 4, .heads = 2}, .out = 3}, rng);
  expect_module_gradients(module, {random_f64({2, 3, 4}, 5)}, [](const SelfAttentionBlock& m, const auto& in) {
    return m.forward(in[0], {.causal = true});
  });
}

}  // namespace
}  // namespace attend
