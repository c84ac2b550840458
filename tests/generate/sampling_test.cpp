#include "attend/generate/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attend/base/error.h"

namespace attend {
namespace {

const std::vector<float> kLogits{1.5f, -0.5f, 2.25f, 0.0f, 2.0f, -3.0f, 0.75f, 1.0f, -1.0f, 0.25f, 2.0f, -0.25f};
constexpr int kDraws = 20000;

struct Inputs {
  std::vector<float> logits = kLogits;
  std::vector<int32_t> history{}, banned{}, written{};
};

std::vector<double> softmax_of(const std::vector<double>& z) {
  std::vector<double> p;
  const double largest = *std::ranges::max_element(z);
  for (const double value : z) p.push_back(std::exp(value - largest));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= total;
  return p;
}

/// The formula of the header, step by step, without optimisation.
std::vector<double> expected(const Inputs& inputs, const SamplingOptions& options) {
  std::vector<double> z(inputs.logits.begin(), inputs.logits.end());
  for (size_t id = 0; id < z.size(); ++id) {
    if (std::ranges::find(inputs.history, static_cast<int32_t>(id)) != inputs.history.end()) {
      z[id] = z[id] > 0 ? z[id] / options.repetition_penalty : z[id] * options.repetition_penalty;
    }
    const auto count = static_cast<double>(std::ranges::count(inputs.written, static_cast<int32_t>(id)));
    z[id] -= options.frequency_penalty * count + (count > 0 ? options.presence_penalty : 0);
    for (const auto& [token, bias] : options.logit_bias) z[id] += token == static_cast<int32_t>(id) ? bias : 0;
    if (std::ranges::find(inputs.banned, static_cast<int32_t>(id)) != inputs.banned.end()) z[id] = -INFINITY;
    z[id] /= options.temperature;
  }
  std::vector<size_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return z[a] > z[b]; });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (options.top_k > 0 && static_cast<int64_t>(rank) >= options.top_k) z[order[rank]] = -INFINITY;
  }
  const auto p = softmax_of(z);
  double before = 0;
  for (const size_t id : order) {
    if (options.top_p < 1 && before >= options.top_p) z[id] = -INFINITY;
    before += p[id];
    if (p[id] < options.min_p * p[order[0]]) z[id] = -INFINITY;
  }
  return softmax_of(z);
}

void expect_distribution(const SamplingOptions& options, const Inputs& inputs = {}) {
  const auto p = expected(inputs, options);
  std::vector<int> counts(p.size());
  for (uint32_t i = 0; i < kDraws; ++i) {
    const DrawInputs all{
        .logits = inputs.logits, .history = inputs.history, .written = inputs.written, .banned = inputs.banned};
    ++counts[static_cast<size_t>(draw(all, options, {.text = 3, .position = i}))];
  }
  double chi_square = 0, freedom = -1;
  for (size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "word " << id;
      continue;
    }
    chi_square += std::pow(counts[id] - kDraws * p[id], 2) / (kDraws * p[id]);
    ++freedom;
  }
  // χ² has a known mean and deviation. A value beyond four deviations means that the formula is wrong.
  EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom) + 1) << "with " << freedom << " degrees of freedom";
}

TEST(Sampling, FollowsTheFormula) {
  expect_distribution({});
  expect_distribution({.temperature = 0.5});
  expect_distribution({.temperature = 3});
  expect_distribution({.top_k = 4});
  expect_distribution({.top_k = 3});  // the cut falls on a tie: the smaller id stays
  expect_distribution({.top_p = 0.7});
  expect_distribution({.top_p = 0.999});
  expect_distribution({.min_p = 0.3});
  expect_distribution({.temperature = 0.8, .top_k = 8, .top_p = 0.8, .min_p = 0.2});
  const Inputs seen{.history = {2, 2, 1, 5, 2}};
  expect_distribution({.repetition_penalty = 1.7}, seen);
  expect_distribution({.top_k = 5, .repetition_penalty = 2}, seen);
  const Inputs written{.written = {2, 2, 1, 5, 2}};
  expect_distribution({.frequency_penalty = 0.6}, written);
  expect_distribution({.frequency_penalty = -0.3, .presence_penalty = 1.1}, written);
  expect_distribution({.top_k = 6, .presence_penalty = -1.5, .logit_bias = {{5, 4.0f}, {2, -100.0f}, {99, 5.0f}}},
                      written);
  expect_distribution({.top_p = 0.9}, {.banned = {2, 4}});
  expect_distribution({}, {.banned = {0, 10}});
}

TEST(Sampling, LargeVocabulariesKeepTheRightShare) {
  Inputs inputs;
  inputs.logits.clear();
  for (int i = 0; i < 3000; ++i) inputs.logits.push_back(std::sin(static_cast<float>(i) * 12.9f) * 0.1f);
  const SamplingOptions options{.top_p = 0.5};  // about half of the tokens: far more than are sorted at first
  const auto p = expected(inputs, options);
  for (uint32_t i = 0; i < 3000; ++i) {
    EXPECT_GT(p[static_cast<size_t>(draw({.logits = inputs.logits}, options, {.position = i}))], 0);
  }
}

TEST(Sampling, TemperatureZeroTakesTheLargest) {
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(draw({.logits = kLogits}, {.temperature = 0}, {.position = i}), 2);
    EXPECT_EQ(draw({.logits = kLogits}, {.top_k = 1}, {.position = i}), 2);
    EXPECT_EQ(draw({.logits = kLogits}, {.top_p = 0}, {.position = i}), 2);
    const std::vector<int32_t> banned{2};
    EXPECT_EQ(draw({.logits = kLogits, .banned = banned}, {.temperature = 0}, {.position = i}), 4);
  }
}

TEST(Sampling, ADrawDependsOnlyOnSeedAndPosition) {
  const auto drawn = [](uint64_t seed, DrawPlace place) { return draw({.logits = kLogits}, {.seed = seed}, place); };
  int other_seed = 0, other_text = 0, other_copy = 0, other_position = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    const DrawPlace place{.text = 1, .copy = 2, .position = i};
    const int32_t id = drawn(9, place);
    EXPECT_EQ(id, drawn(9, place));
    other_seed += id != drawn(10, place);
    other_text += id != drawn(9, {.text = 2, .copy = 2, .position = i});
    other_copy += id != drawn(9, {.text = 1, .copy = 3, .position = i});
    other_position += id != drawn(9, {.text = 1, .copy = 2, .position = i + 1000});
  }
  for (const int different : {other_seed, other_text, other_copy, other_position}) EXPECT_GT(different, 100);
}

TEST(Sampling, RefusesNumbersOutOfRange) {
  EXPECT_THROW(check_sampling({.temperature = -1}), ShapeError);
  EXPECT_THROW(check_sampling({.temperature = NAN}), ShapeError);
  EXPECT_THROW(check_sampling({.top_k = -1}), ShapeError);
  EXPECT_THROW(check_sampling({.top_p = 1.5}), ShapeError);
  EXPECT_THROW(check_sampling({.min_p = -0.1}), ShapeError);
  EXPECT_THROW(check_sampling({.repetition_penalty = 0}), ShapeError);
  EXPECT_THROW(check_sampling({.frequency_penalty = 101}), ShapeError);
  EXPECT_THROW(check_sampling({.presence_penalty = NAN}), ShapeError);
  const std::vector<float> nothing{-INFINITY, NAN};
  EXPECT_THROW(draw({.logits = nothing}, {}, {}), ShapeError);
}

}  // namespace
}  // namespace attend
