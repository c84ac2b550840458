#include "attend/ops/attention.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "attend/ops/position.h"
#include "attend/ops/shape.h"
#include "ops/attention_cases.h"
#include "ops/attention_reference.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::Case;
using testing::cases;
using testing::element;
using testing::expect_close;
using testing::expect_error;
using testing::in_f32;
using testing::Inputs;
using testing::inputs_of;
using testing::random_f64;
using testing::reference_attention;
using testing::set_element;

class AttentionCase : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionCase, MatchesItsDefinition) {
  const Inputs in = inputs_of(GetParam());
  const auto expected = reference_attention(in.q, in.k, in.v, in.options);
  const AttentionResult exact = attention_with_lse(in.q, in.k, in.v, in.options);
  expect_close(exact.output, expected.output, 1e-12);
  const auto lse = exact.lse.to_vector<double>();
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isinf(expected.lse[i]))
      EXPECT_EQ(lse[i], expected.lse[i]);
    else
      EXPECT_NEAR(lse[i], expected.lse[i], 1e-12);
  }
  expect_close(attention_weights(in.q, in.k, exact.lse, in.options).values, expected.weights, 1e-12);

  const Tensor q = to(in.q, DType::f32), k = to(in.k, DType::f32), v = to(in.v, DType::f32);
  const AttentionOptions options = in_f32(in.options);
  const auto rounded = reference_attention(q, k, v, options);
  const AttentionResult fast = attention_with_lse(q, k, v, options);
  expect_close(fast.output, rounded.output, 3e-6);
  expect_close(attention_weights(q, k, fast.lse, options).values, rounded.weights, 2e-6);
}

class AttentionGradientCase : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionGradientCase, MatchCentralDifferences) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c);
  const bool biased = static_cast<bool>(in.options.bias);
  std::vector<Tensor> inputs{in.q, in.k, in.v};
  if (biased) inputs.push_back(in.options.bias);
  testing::expect_gradients(
      [&](const std::vector<Tensor>& x) {
        AttentionOptions options = in.options;
        if (biased) options.bias = x[3];
        return attention(x[0], x[1], x[2], options);
      },
      inputs);
}

TEST_P(AttentionCase, FloatGradientsFollowDoubleOnes) {
  const Inputs in = inputs_of(GetParam());
  std::vector<std::vector<double>> results;
  for (DType dtype : {DType::f64, DType::f32}) {
    const Tensor q = parameter(to(in.q, dtype).clone()), k = parameter(to(in.k, dtype).clone()),
                 v = parameter(to(in.v, dtype).clone());
    const Tensor y = attention(q, k, v, dtype == DType::f32 ? in_f32(in.options) : in.options);
    backward(y, testing::weights_like(y));
    for (const Tensor& x : {q, k, v}) results.push_back(grad(x).to_vector<double>());
  }
  for (size_t n = 0; n < 3; ++n) {
    for (size_t i = 0; i < results[n].size(); ++i) ASSERT_NEAR(results[n][i], results[n + 3][i], 2e-5) << n << " " << i;
  }
}

TEST_P(AttentionCase, SameBitsOnAnyThreads) {
  const Inputs in = inputs_of(GetParam());
  for (DType dtype : {DType::f32, DType::f64}) {
    const AttentionOptions options = dtype == DType::f32 ? in_f32(in.options) : in.options;
    testing::expect_same_bits([&](const std::vector<Tensor>& x) { return attention(x[0], x[1], x[2], options); },
                              {to(in.q, dtype), to(in.k, dtype), to(in.v, dtype)});
  }
}

/// Only the small cases: central differences take two forward passes for each input element.
std::vector<Case> small_cases() {
  std::vector<Case> list = cases();
  std::erase_if(list, [](const Case& c) {
    const int64_t pairs = c.batch * c.heads * c.queries * c.keys;
    return pairs == 0 || pairs > 9000;
  });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Small, AttentionGradientCase, ::testing::ValuesIn(small_cases()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(All, AttentionCase, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(Attention, ReadsStridedViewsInPlace) {
  const Tensor x =
      random_f64({2, 9, 3 * 4 * 6}, 1);  // [batch, length, q|k|v × heads × dim], as a joint projection gives
  std::vector<Tensor> parts;
  for (int64_t part = 0; part < 3; ++part) {
    parts.push_back(transpose(reshape(slice(x, 2, part * 24, part * 24 + 24), {2, 9, 4, 6}), 1, 2));
  }
  const Tensor strided = attention(parts[0], parts[1], parts[2], {.causal = true});
  const Tensor dense = attention(parts[0].clone(), parts[1].clone(), parts[2].clone(), {.causal = true});
  EXPECT_EQ(strided.to_vector<double>(), dense.to_vector<double>());
}

/// NaN and inf in masked positions change neither the output nor any gradient.
TEST(Attention, MaskedValuesNeverLeak) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::map<std::string, AttentionOptions> hiding{{"mask",
                                                        {.mask =
                                                             [] {
                                                               std::vector<uint8_t> m(9 * 9, 1);
                                                               for (size_t i = 0; i < 9; ++i)
                                                                 m[i * 9 + 7] = m[i * 9 + 8] = 0;
                                                               return bool_tensor(m, {9, 9});
                                                             }()}},
                                                       {"lengths", {.lengths = tensor<int64_t>({7}, {1})}},
                                                       {"bias",
                                                        {.bias =
                                                             [=] {
                                                               std::vector<double> b(9, 0);
                                                               b[7] = b[8] = -inf;
                                                               return tensor(b, {9});
                                                             }()}},
                                                       {"causal", {.causal = true}}};
  for (const auto& [name, options] : hiding) {
    for (int64_t queries : {1, 7}) {
      std::vector<std::vector<double>> results;
      for (bool poisoned : {false, true}) {
        Tensor k = random_f64({1, 1, 9, 4}, 2), v = random_f64({1, 1, 9, 4}, 3);
        for (int64_t c = 0; poisoned && c < 8; ++c) {
          set_element(k, 28 + c, c % 2 ? nan : inf);
          set_element(v, 28 + c, c % 2 ? -inf : nan);
        }
        AttentionOptions call = options;
        if (call.mask) call.mask = slice(call.mask, 0, 0, queries);
        const Tensor q = parameter(random_f64({1, 1, queries, 4}, 1));
        k = parameter(k);
        v = parameter(v);
        const Tensor y = attention(q, k, v, call);
        backward(y, testing::weights_like(y));
        results.push_back(y.to_vector<double>());
        for (const Tensor& x : {q, k, v}) results.push_back(grad(x).to_vector<double>());
      }
      for (size_t n = 0; n < 4; ++n) {
        for (size_t i = 0; i < results[n].size(); ++i) {
          ASSERT_EQ(results[n][i], results[n + 4][i])
              << name << ", " << queries << " queries, result " << n << ", element " << i;
        }
      }
    }
  }
}

/// NaN in a query or in its upstream gradient reaches only the keys that the query sees.
TEST(Attention, NaNInAQueryDoesNotReachMaskedKeys) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (bool in_query : {true, false}) {
    Tensor q = random_f64({1, 1, 9, 4}, 1), dy = random_f64({1, 1, 9, 4}, 4);
    set_element(in_query ? q : dy, 12, nan);  // row 3 of a causal head: keys 4 to 8 never meet it
    q = parameter(q);
    const Tensor k = parameter(random_f64({1, 1, 9, 4}, 2)), v = parameter(random_f64({1, 1, 9, 4}, 3));
    backward(attention(q, k, v, {.causal = true}), dy);
    for (const Tensor& x : {k, v}) {
      const auto gradient = grad(x).to_vector<double>();
      EXPECT_TRUE(std::isnan(gradient[0]));
      for (size_t i = 16; i < gradient.size(); ++i) EXPECT_FALSE(std::isnan(gradient[i])) << in_query << " " << i;
    }
  }
}

TEST(Attention, NaNInAKeyPropagatesForAnyNumberOfQueries) {
  for (int64_t queries : {1, 3, 4}) {
    Tensor k = random_f64({1, 1, 5, 4}, 2);
    set_element(k, 0, std::numeric_limits<double>::quiet_NaN());
    const Tensor y = attention(random_f64({1, 1, queries, 4}, 1), k, random_f64({1, 1, 5, 4}, 3));
    for (double value : y.to_vector<double>()) EXPECT_TRUE(std::isnan(value)) << queries;
  }
}

TEST(Attention, AnUnboundedWindowIsNoWindow) {
  const Tensor x = random_f64({1, 1, 9, 4}, 1);
  EXPECT_EQ(attention(x, x, x, {.window = std::numeric_limits<int64_t>::max()}).to_vector<double>(),
            attention(x, x, x).to_vector<double>());
}

TEST(Attention, NaNInAVisibleKeyPropagates) {
  Tensor v = random_f64({1, 1, 5, 4}, 3);
  set_element(v, 4, std::numeric_limits<double>::quiet_NaN());  // key 1
  const Tensor y = attention(random_f64({1, 1, 5, 4}, 1), random_f64({1, 1, 5, 4}, 2), v, {.causal = true});
  EXPECT_FALSE(std::isnan(element(y, 0)));
  EXPECT_TRUE(std::isnan(element(y, 4)));
}

TEST(Attention, LargeScoresStayExact) {
  const Tensor q = to(random_f64({1, 1, 40, 16}, 1), DType::f32), k = to(random_f64({1, 1, 50, 16}, 2), DType::f32),
               v = to(random_f64({1, 1, 50, 16}, 3), DType::f32);
  const AttentionOptions options{.scale = 3e4};
  expect_close(attention(q, k, v, options), reference_attention(q, k, v, options).output, 2e-2);
}

/// More keys than one CTA of a GPU takes, and more rows than are passed with its kernel.
TEST(AttentionWeights, LongRowsAndManyOfThem) {
  const int64_t queries = 320, keys = 700;
  const Tensor q = testing::random_f32({1, 2, queries, 16}, 1), k = testing::random_f32({1, 2, keys, 16}, 2);
  const AttentionOptions options{.causal = true, .alignment = Alignment::bottom_right, .window = 400};
  const AttentionResult result = attention_with_lse(q, k, k, options);
  const auto expected = reference_attention(q, k, k, options).weights;
  expect_close(attention_weights(q, k, result.lse, options).values, expected, 2e-6);
  const auto few = attention_weights(q, k, result.lse, options, {.heads = {1}, .rows = {300}}).values;
  const auto first = expected.begin() + (queries + 300) * keys;
  expect_close(few, {first, first + keys}, 2e-6);
  const auto top = attention_weights(q, k, result.lse, options, {.heads = {1}, .top = 2});
  for (int64_t i = 0; i < queries; ++i) {
    const auto row = expected.begin() + (queries + i) * keys;
    EXPECT_NEAR(element(top.values, 2 * i), *std::max_element(row, row + keys), 2e-6);
  }
}

TEST(AttentionWeights, ChosenHeadsRowsAndTop) {
  const Tensor q = random_f64({2, 3, 40, 8}, 1), k = random_f64({2, 3, 50, 8}, 2), v = random_f64({2, 3, 50, 8}, 3);
  const AttentionOptions options{.causal = true, .alignment = Alignment::bottom_right};
  const AttentionResult result = attention_with_lse(q, k, v, options);
  const auto all = attention_weights(q, k, result.lse, options).values.to_vector<double>();
  const auto some = attention_weights(q, k, result.lse, options, {.heads = {2, 0}, .rows = {39, 3, 4, 5}});
  ASSERT_EQ(some.values.shape(), (Shape{2, 2, 4, 50}));
  const std::vector<int64_t> heads{2, 0}, chosen{39, 3, 4, 5};
  const auto values = some.values.to_vector<double>();
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 2; ++h) {
      for (size_t r = 0; r < 4; ++r) {
        for (size_t j = 0; j < 50; ++j) {
          const size_t row = (b * 3 + static_cast<size_t>(heads[h])) * 40 + static_cast<size_t>(chosen[r]);
          EXPECT_EQ(values[((b * 2 + h) * 4 + r) * 50 + j], all[row * 50 + j]);
        }
      }
    }
  }
  const auto top = attention_weights(q, k, result.lse, options, {.heads = {1}, .rows = {20}, .top = 3});
  ASSERT_EQ(top.values.shape(), (Shape{2, 1, 1, 3}));
  for (int64_t b = 0; b < 2; ++b) {
    std::vector<double> row(all.begin() + ((b * 3 + 1) * 40 + 20) * 50, all.begin() + ((b * 3 + 1) * 40 + 21) * 50);
    for (int64_t n = 0; n < 3; ++n) {
      const auto best = std::max_element(row.begin(), row.end());
      EXPECT_EQ(element(top.values, b * 3 + n), *best);
      EXPECT_EQ(static_cast<int64_t>(element(top.places, b * 3 + n)), best - row.begin());
      *best = -1;
    }
  }
}

TEST(SelfAttention, EmptySequences) { EXPECT_EQ(self_attention(zeros({2, 0, 4})).shape(), (Shape{2, 0, 4})); }

TEST(SelfAttention, IsDotProductsSoftmaxWeightedSum) {
  const Tensor x = random_f64({2, 6, 4}, 9);
  const Tensor heads = reshape(x, {2, 1, 6, 4});
  expect_close(self_attention(x), reference_attention(heads, heads, heads, {.scale = 1.0}).output, 1e-12);
  expect_close(self_attention(x, true), reference_attention(heads, heads, heads, {.causal = true, .scale = 1.0}).output,
               1e-12);
  testing::expect_gradients([](const std::vector<Tensor>& in) { return self_attention(in[0], true); }, {x});
}

TEST(Attention, ErrorsSayWhatWasExpected) {
  const auto t = [](const Shape& shape) { return zeros(shape); };
  const Tensor q = t({2, 4, 5, 64});
  expect_error<ShapeError>(
      [&] {
        attention(q, t({2, 4, 5, 80}), t({2, 4, 5, 80}));
      },
      "attention: q has head size 64 but k has 80");
  expect_error<ShapeError>(
      [&] {
        attention(q, t({2, 3, 5, 64}), t({2, 3, 5, 64}));
      },
      "attention: 4 query heads are not a multiple of 3 key heads");
  expect_error<ShapeError>(
      [&] {
        attention(q, t({1, 4, 5, 64}), t({1, 4, 5, 64}));
      },
      "attention: q has batch 2 but k has 1");
  expect_error<ShapeError>(
      [&] {
        attention(q, q, t({2, 4, 6, 64}));
      },
      "attention: v must match k in batch, heads and length, got v [2, 4, 6, 64] and k [2, 4, 5, 64]");
  expect_error<ShapeError>(
      [&] {
        attention(t({5, 64}), q, q);
      },
      "attention: expected [batch, heads, length, head_dim], got shape [5, 64]");
  expect_error<ShapeError>(
      [&] {
        attention(q, q, q, {.mask = t({5, 5})});
      },
      "attention: mask must be bool (true = may attend), got f32");
  expect_error<ShapeError>(
      [&] {
        attention(q, q, q, {.bias = t({4, 5})});
      },
      "attention: bias has shape [4, 5] but must broadcast to [2, 4, 5, 5]");
  expect_error<ShapeError>(
      [&] {
        attention(q, q, q, {.lengths = tensor<int64_t>({5, 6}, {2})});
      },
      "attention: a length of 6 is outside 0 … 5");
  expect_error<ShapeError>([&] { attention(q, q, q, {.alibi = t({3})}); }, "attention: alibi must be [4], got [3]");
  expect_error<ShapeError>([&] { attention(q, q, q, {.dropout = 1}); }, "attention: dropout must be in [0, 1), got 1");
  expect_error<ShapeError>(
      [&] {
        attention(q, q, q, {.q_offsets = tensor<int64_t>({0, 5}, {2})});
      },
      "attention: q_offsets and k_offsets must be set together");
  expect_error<ShapeError>(
      [&] {
        attention_weights(q, q, t({2, 4, 4}), {});
      },
      "attention_weights: lse must be f32 [2, 4, 5], got f32 [2, 4, 4]");
}

}  // namespace
}  // namespace attend
