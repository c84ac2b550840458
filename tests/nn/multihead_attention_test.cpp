#include "attend/nn/multihead_attention.h"

#include <cmath>

#include "attend/ops/shape.h"
#include "nn/module_testing.h"

namespace attend {
namespace {

using testing::as_function;
using testing::expect_equal;
using testing::expect_error;
using testing::expect_module_gradients;
using testing::in_f64;
using testing::random_f64;
using testing::values;

MultiheadAttention create(const MultiheadAttentionConfig& config, uint64_t seed = 1) {
  Rng rng{.seed = seed};
  MultiheadAttention module = MultiheadAttention::create(config, rng);
  // Biases start at 0. A test would not notice if they were left out, so give them other values.
  for_each_parameter(module, "", [&](const std::string& name, Tensor& tensor) {
    if (name.ends_with("bias")) copy_values(uniform(tensor.shape(), -1, 1, rng.stream()), tensor);
  });
  return module;
}

Tensor key_mask(std::initializer_list<uint8_t> seen, const Shape& shape) {
  return bool_tensor(std::vector<uint8_t>(seen), shape);
}

const Tensor kKeys = key_mask({1, 1, 0, 1, 1, 1, 0, 0}, {2, 4});

struct Variant {
  const char* name;
  MultiheadAttentionConfig config;
  MaskOptions masks;
};

std::vector<Variant> variants() {
  return {
      {"plain", {.dim = 4, .heads = 2}, {}},
      {"causal", {.dim = 4, .heads = 2}, {.causal = true}},
      {"no bias", {.dim = 4, .heads = 2, .bias = false}, {}},
      {"grouped", {.dim = 8, .heads = 4, .key_heads = 2}, {}},
      {"wide heads", {.dim = 4, .heads = 2, .head_dim = 3}, {}},
      {"bias_kv", {.dim = 4, .heads = 2, .bias_kv = true}, {.causal = true}},
      {"zero_key", {.dim = 4, .heads = 2, .zero_key = true}, {.keys = kKeys}},
      {"both, window", {.dim = 4, .heads = 2, .bias_kv = true, .zero_key = true, .window = 2}, {.keys = kKeys}},
      {"both, lengths",
       {.dim = 4, .heads = 2, .bias_kv = true, .zero_key = true},
       {.lengths = tensor<int64_t>({2, 4}, {2})}},
      {"rope", {.dim = 4, .heads = 2, .rope = RopeOptions{}}, {.causal = true}},
      {"alibi", {.dim = 4, .heads = 2, .alibi = true}, {.causal = true}},
      {"softcap", {.dim = 4, .heads = 2, .softcap = 1.5, .scale = 1.0}, {}},
      {"masks", {.dim = 4, .heads = 2}, {.mask = position_mask({.queries = 4, .keys = 4}), .keys = kKeys}},
  };
}

TEST(MultiheadAttention, GradientsOfEveryVariant) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    expect_module_gradients(
        create(variant.config), {random_f64({2, 4, variant.config.dim}, 2)},
        [&](const MultiheadAttention& m, const auto& in) { return m.forward(in[0], variant.masks); }, 2e-6);
  }
}

TEST(MultiheadAttention, GradientsOfCrossAttentionWithOwnWidths) {
  const auto module = create({.dim = 4, .heads = 2, .key_dim = 3, .value_dim = 5});
  expect_module_gradients(module, {random_f64({2, 2, 4}, 2), random_f64({2, 3, 3}, 3), random_f64({2, 3, 5}, 4)},
                          [](const MultiheadAttention& m, const auto& in) {
                            return m.forward_traced({in[0], in[1], in[2]}).output;
                          });
}

TEST(MultiheadAttention, SameBitsOnAnyThreads) {
  const auto forward = [](const MultiheadAttention& m, const auto& in) { return m.forward(in[0], {.causal = true}); };
  testing::expect_module_same_bits(create({.dim = 32, .heads = 4}), {random_f64({3, 33, 32}, 7)}, forward);
}

TEST(MultiheadAttention, PaddingChangesNothing) {
  for (const bool extra : {false, true}) {
    const auto module = in_f64(create({.dim = 4, .heads = 2, .bias_kv = extra, .zero_key = extra}));
    const Tensor x = random_f64({2, 5, 4}, 3);
    const Tensor by_length = module.forward(x, {.lengths = tensor<int64_t>({3, 5}, {2})});
    const Tensor by_mask = module.forward(x, {.keys = key_mask({1, 1, 1, 0, 0, 1, 1, 1, 1, 1}, {2, 5})});
    const Tensor alone = module.forward(slice(slice(x, 0, 0, 1), 1, 0, 3));
    expect_equal(slice(slice(by_length, 0, 0, 1), 1, 0, 3), alone);
    expect_equal(by_mask, by_length);
  }
}

TEST(MultiheadAttention, FullyMaskedSequenceGivesTheOutputBias) {
  const auto module = in_f64(create({.dim = 4, .heads = 2}));
  const Tensor y = module.forward(random_f64({1, 2, 4}, 3), {.lengths = tensor<int64_t>({0}, {1})});
  expect_equal(select(select(y, 0, 0), 0, 1), module.output.bias);
}

TEST(MultiheadAttention, LaterInputsDoNotReachEarlierOutputsWhenCausal) {
  const auto module = in_f64(create({.dim = 4, .heads = 2, .bias_kv = true}));
  const Tensor x = random_f64({1, 5, 4}, 3);
  Tensor changed = x.clone();
  testing::set_element(changed, 17, testing::element(changed, 17) + 1);  // position 4
  const Tensor before = module.forward(x, {.causal = true}), after = module.forward(changed, {.causal = true});
  EXPECT_EQ(values(slice(before, 1, 0, 4)), values(slice(after, 1, 0, 4)));
  EXPECT_NE(values(before), values(after));
}

TEST(MultiheadAttention, ExtraKeysAreSeenByEveryQuery) {
  const auto module = in_f64(create({.dim = 4, .heads = 2, .bias_kv = true, .zero_key = true}));
  const Tensor x = random_f64({1, 3, 4}, 3);
  const auto weights = module.forward_traced({x, x, x}, {.causal = true}).trace.weights().values;
  ASSERT_EQ(weights.shape(), (Shape{1, 2, 3, 5}));
  for (int64_t i = 0; i < 3; ++i) {
    const auto row = values(select(select(select(weights, 0, 0), 0, 1), 0, i));
    for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(row[static_cast<size_t>(j)] > 0, j <= i || j >= 3) << i << ' ' << j;
  }
}

TEST(MultiheadAttention, WeightsSumToOneAndAverageOverHeads) {
  const auto module = in_f64(create({.dim = 6, .heads = 3, .key_heads = 1}));
  const Tensor x = random_f64({2, 4, 6}, 3);
  AttentionRecorder recorder;
  const Tensor y = module.forward(x, {}, {.observer = &recorder});
  ASSERT_EQ(recorder.traces.size(), 1u);
  EXPECT_EQ(values(y), values(module.forward(x)));  // tracing changes nothing
  const auto heads = values(recorder.traces[0].weights().values),
             average = values(recorder.traces[0].average_weights());
  for (size_t b = 0; b < 2; ++b) {
    for (size_t i = 0; i < 4; ++i) {
      double sum = 0;
      for (size_t j = 0; j < 4; ++j) {
        double mean = 0;
        for (size_t h = 0; h < 3; ++h) mean += heads[((b * 3 + h) * 4 + i) * 4 + j] / 3;
        EXPECT_NEAR(average[(b * 4 + i) * 4 + j], mean, 1e-12);
        sum += mean;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
  }
}

TEST(MultiheadAttention, StartsWithXaviersBound) {
  Rng rng{.seed = 4};
  const auto same = MultiheadAttention::create({.dim = 64, .heads = 4}, rng);
  const auto other = MultiheadAttention::create({.dim = 64, .heads = 4, .key_dim = 32}, rng);
  const auto largest = [](const Tensor& x) {
    double result = 0;
    for (const double value : values(x)) result = std::max(result, std::abs(value));
    return result;
  };
  EXPECT_NEAR(largest(same.query.weight), std::sqrt(6.0 / (4 * 64)), 1e-3);
  EXPECT_NEAR(largest(other.key.weight), std::sqrt(6.0 / (64 + 32)), 1e-3);
  EXPECT_EQ(largest(same.query.bias), 0);
  EXPECT_EQ(largest(same.output.bias), 0);
}

TEST(MultiheadAttention, ParameterNames) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters(create({.dim = 4, .heads = 2, .bias_kv = true})))
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"query.weight", "query.bias", "key.weight", "key.bias", "value.weight",
                                             "value.bias", "output.weight", "output.bias", "bias_key", "bias_value"}));
}

TEST(MultiheadAttention, ErrorsSayWhatWasExpected) {
  expect_error<ShapeError>([] { create({.dim = 10, .heads = 3}); },
                           "MultiheadAttention: dim 10 is not divisible by heads 3");
  expect_error<ShapeError>([] { create({.dim = 12, .heads = 6, .key_heads = 4}); },
                           "MultiheadAttention: heads 6 is not divisible by key_heads 4");
  expect_error<ShapeError>([] { create({.dim = 0}); },
                           "MultiheadAttention: dim and heads must be at least 1, got 0 and 1");
  expect_error<ShapeError>([] { create({.dim = 4, .zero_key = true, .alibi = true}); },
                           "MultiheadAttention: alibi cannot be combined with the extra keys of bias_kv and zero_key");
  const auto module = create({.dim = 4, .heads = 2});
  expect_error<ShapeError>(
      [&] {
        module.forward(zeros({2, 3, 5}));
      },
      "MultiheadAttention: expected query of shape [batch, length, 4], got [2, 3, 5]");
  expect_error<ShapeError>(
      [&] {
        module.forward_cross(zeros({2, 3, 4}), zeros({1, 3, 4}));
      },
      "MultiheadAttention: query, key and value must have the same batch size, got 2, 1 and 1");
  expect_error<ShapeError>(
      [&] {
        module.forward_traced({zeros({2, 3, 4}), zeros({2, 3, 4}), zeros({2, 1, 4})});
      },
      "MultiheadAttention: got 3 keys but 1 values");
}

TEST(Masks, Logic) {
  const Tensor a = key_mask({1, 1, 0, 0}, {4}), b = key_mask({1, 0, 1, 0}, {4});
  EXPECT_EQ(values(logical_and(a, b)), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(values(logical_not(a)), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(values(logical_and(a, {})), values(a));
  EXPECT_EQ(logical_not(a).dtype(), DType::boolean);
  EXPECT_EQ(values(length_mask(tensor<int64_t>({0, 2}, {2}), 2)), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(values(position_mask({.queries = 1, .keys = 3, .alignment = Alignment::bottom_right, .window = 2})),
            (std::vector<double>{0, 1, 1}));
  expect_error<ShapeError>([] { logical_not(zeros({2})); }, "logical_not: expected a boolean tensor, got f32");
  expect_error<ShapeError>([] { length_mask(tensor<int64_t>({3}, {1}), 2); }, "length_mask: length 3 is outside 0 … 2");
}

}  // namespace
}  // namespace attend
