#include "attend/nn/transformer.h"

#include "attend/ops/shape.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::expect_equal;
using testing::expect_module_gradients;
using testing::in_f64;
using testing::random_f64;
using testing::values;

TransformerLayerConfig small(bool norm_first = false) {
  return {.dim = 4, .heads = 2, .ffn_dim = 6, .activation = Activation::gelu, .norm_first = norm_first, .dropout = 0.1};
}

Transformer create(bool norm_first, bool gated = false) {
  Rng rng{.seed = 8};
  TransformerConfig config{.layer = small(norm_first), .encoder_layers = 1, .decoder_layers = 2};
  config.layer.gated = gated;
  return Transformer::create(config, rng);
}

TEST(Transformer, GradientsOfTheWhole) {
  for (const bool norm_first : {false, true}) {
    expect_module_gradients(
        create(norm_first, norm_first), {random_f64({2, 3, 4}, 1), random_f64({2, 2, 4}, 2)},
        [](const Transformer& m, const auto& in) { return m.forward(in[0], in[1]); }, 1e-5);
  }
}

TEST(Transformer, SameBitsOnAnyThreads) {
  Rng rng{.seed = 8};
  const auto module = Transformer::create(
      {.layer = {.dim = 32, .heads = 4, .ffn_dim = 48}, .encoder_layers = 1, .decoder_layers = 1}, rng);
  testing::expect_module_same_bits(module, {random_f64({2, 33, 32}, 1), random_f64({2, 9, 32}, 2)},
                                   [](const Transformer& m, const auto& in) {
                                     Rng dropout{.seed = 3};
                                     return m.forward(in[0], in[1], {}, {.rng = &dropout});
                                   });
}

TEST(Transformer, PaddingChangesNothing) {
  const auto module = in_f64(create(true));
  const Tensor source = random_f64({2, 5, 4}, 1), target = random_f64({2, 4, 4}, 2);
  const Tensor sources = tensor<int64_t>({3, 5}, {2}), targets = tensor<int64_t>({2, 4}, {2});
  const Tensor together = module.forward(
      source, target,
      {.source = {.lengths = sources}, .target = {.causal = true, .lengths = targets}, .memory = {.lengths = sources}});
  const Tensor alone = module.forward(slice(slice(source, 0, 0, 1), 1, 0, 3), slice(slice(target, 0, 0, 1), 1, 0, 2));
  expect_equal(slice(slice(together, 0, 0, 1), 1, 0, 2), alone);
}

TEST(Transformer, TheTargetIsCausalByDefault) {
  const auto module = in_f64(create(false));
  const Tensor source = random_f64({1, 3, 4}, 1), target = random_f64({1, 4, 4}, 2);
  Tensor changed = target.clone();
  testing::set_element(changed, 13, testing::element(changed, 13) + 1);  // position 3
  const Tensor before = module.forward(source, target), after = module.forward(source, changed);
  EXPECT_EQ(values(slice(before, 1, 0, 3)), values(slice(after, 1, 0, 3)));
  EXPECT_NE(values(module.forward(source, target, {.target = {}})), values(before));
}

TEST(Transformer, DropoutFollowsTheGivenRandomness) {
  const auto module = create(false);
  const Tensor source = testing::random_f32({1, 3, 4}, 1), target = testing::random_f32({1, 4, 4}, 2);
  Rng first{.seed = 5}, again{.seed = 5}, other{.seed = 6};
  const auto y = values(module.forward(source, target, {}, {.rng = &first}));
  EXPECT_EQ(y, values(module.forward(source, target, {}, {.rng = &again})));
  EXPECT_NE(y, values(module.forward(source, target, {}, {.rng = &other})));
  EXPECT_EQ(values(module.forward(source, target)), values(module.forward(source, target)));
  // One random stream each for attention, feed-forward and each residual: 4 per encoder layer, 6 per decoder layer.
  EXPECT_EQ(first.next, 4u + 2 * 6u);
}

TEST(Transformer, TracesEveryAttentionInOrder) {
  const auto module = create(true);
  AttentionRecorder recorder;
  module.forward(testing::random_f32({1, 3, 4}, 1), testing::random_f32({1, 5, 4}, 2), {}, {.observer = &recorder});
  std::vector<Shape> shapes;
  for (const AttentionTrace& trace : recorder.traces) shapes.push_back(trace.weights().values.shape());
  const Shape own{1, 2, 5, 5}, cross{1, 2, 5, 3};
  EXPECT_EQ(shapes, (std::vector<Shape>{{1, 2, 3, 3}, own, cross, own, cross}));
}

TEST(Transformer, ParameterNames) {
  const auto saved = save_parameters(create(false));
  EXPECT_EQ(saved.size(), 16u + 2 * 26u + 4u);
  for (const char* name :
       {"encoder.layers.0.attention.query.weight", "encoder.norm.bias", "decoder.layers.1.cross_attention.output.bias",
        "decoder.layers.0.feed_forward.up.weight", "decoder.layers.1.feed_forward_norm.weight"}) {
    EXPECT_TRUE(saved.contains(name)) << name;
  }
}

TEST(TransformerLayers, GradientsWithoutBiases) {
  Rng rng{.seed = 2};
  TransformerLayerConfig config = small(true);
  config.bias = false;
  const auto encoder = TransformerEncoderLayer::create(config, rng);
  EXPECT_EQ(count_parameters(encoder), 4 * 16 + 2 * 24 + 2 * 4);
  expect_module_gradients(
      encoder, {random_f64({1, 3, 4}, 3)},
      [](const TransformerEncoderLayer& m, const auto& in) { return m.forward(in[0]); }, 1e-5);
}

TEST(TransformerEncoder, FinalNormIsOptional) {
  Rng rng{.seed = 2};
  const auto stack = TransformerEncoder::create({.layer = small(), .layers = 2, .final_norm = false}, rng);
  EXPECT_FALSE(stack.norm);
  const Tensor x = testing::random_f32({1, 3, 4}, 1);
  EXPECT_EQ(values(stack.forward(x)), values(stack.layers[1].forward(stack.layers[0].forward(x))));
}

}  // namespace
}  // namespace attend
