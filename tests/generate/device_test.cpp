// Generation on a GPU: the device named by ATTEND_TEST_DEVICE, or the pretend GPU, whose kernels are the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "attend/backend/devices.h"
#include "attend/ops/precision.h"
#include "generate/mixed_sequences.h"
#include "testing/pretend_device.h"

namespace attend {
namespace {

using testing::kVocab;
using testing::ModelCase;
using testing::random_sources;
using testing::tiny_model;

bool is_pretended() { return std::getenv("ATTEND_TEST_DEVICE") == nullptr; }
Device device() { return is_pretended() ? testing::pretend_device() : parse_device(std::getenv("ATTEND_TEST_DEVICE")); }

class OnADevice : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override { model_ = testing::created(GetParam(), 30); }

  /// Greedy, beam and sampled sequences of different lengths: with and without rules, with and without top_k.
  std::vector<Sequence> sequences() const {
    std::vector<Sequence> result;
    for (const std::vector<int32_t>& ids : random_sources(20, 12, 5, 8)) {
      const auto i = result.size();
      Sequence one = testing::mixed_sequence(*model_, ids, i, 23);
      one.vocabulary.size = kVocab - 1;
      if (one.options.sampling) one.options.sampling->top_k = 4, one.options.sampling->top_p = 0.9;
      if (i == 5) one.options.sampling->top_k = 0;
      if (i == 8) one.options.sampling->temperature = 0;
      if (i == 12) one.options.rules.no_repeat = 2;
      result.push_back(std::move(one));
    }
    return result;
  }

  std::vector<std::vector<Hypothesis>> written(const EngineOptions& options) const {
    const std::vector<Sequence> all = sequences();
    std::vector<std::vector<Hypothesis>> result(all.size());
    Engine engine(*model_, options);
    for (size_t i = 0; i < all.size(); ++i) {
      Sequence one = all[i];
      one.on_done = [&result, i](std::vector<Hypothesis> best) { result[i] = std::move(best); };
      engine.add(std::move(one));
      if (i % 2 == 0) engine.step();  // later sequences join while these run
    }
    while (engine.step()) {
    }
    return result;
  }

  static void expect_same(const std::vector<std::vector<Hypothesis>>& a, const std::vector<std::vector<Hypothesis>>& b,
                          double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].size(), b[i].size()) << i;
      for (size_t j = 0; j < a[i].size(); ++j) {
        EXPECT_EQ(a[i][j].ids, b[i][j].ids) << i;
        EXPECT_NEAR(a[i][j].log_probability, b[i][j].log_probability, tolerance) << i;
      }
    }
  }

  std::unique_ptr<Model> model_;
};

TEST_P(OnADevice, TheSameAsOnTheCpu) {
  const auto expected = written({.rows = 7});
  model_->to(device());
  expect_same(expected, written({.rows = 7}), is_pretended() ? 1e-5 : 1e-3);
}

/// Products that round to bf16, and a bf16 cache: close to f32, and as reproducible.
TEST_P(OnADevice, WithABf16Cache) {
  model_->to(device());
  if (!has_bf16(device())) GTEST_SKIP() << "no bf16 products";
  set_weight_format(*model_, WeightFormat::bf16);
  const PrecisionScope scope(Precision::bf16, device());
  const auto once = written({.rows = 7});
  for (const auto& best : once) {
    ASSERT_FALSE(best.empty());
    EXPECT_TRUE(std::isfinite(best[0].log_probability));
  }
  expect_same(once, written({.rows = 7}), 0);
}

TEST_P(OnADevice, TheCacheHasTheRequestedType) {
  const auto ids = [](const std::vector<int64_t>& values, const Shape& shape) {
    return from_span<int64_t>(values, shape, kCpu);
  };
  const auto logits = [&](std::optional<DType> type) {
    const auto* pair = dynamic_cast<const PairModel*>(model_.get());
    const auto decoding =
        pair ? pair->start(ids({5, 6, 7, 8, 9, 4}, {2, 3}), {}) : dynamic_cast<const LanguageModel&>(*model_).start();
    if (type) decoding->set_cache_type(*type);
    decoding->step(ids({5, 6, 7, 8}, {2, 2}));
    return decoding->step(ids({3, 4}, {2, 1})).to_vector<double>();
  };
  const auto difference = [](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  model_->to(device());
  const auto exact = logits({});
  EXPECT_EQ(logits(DType::f32), exact);
  const double error = difference(logits(DType::bf16), exact);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.05);
  if (!has_bf16(device())) return;
  set_weight_format(*model_, WeightFormat::bf16);
  const PrecisionScope scope(Precision::bf16, device());
  const auto rounded = logits({});
  EXPECT_EQ(logits(DType::bf16), rounded);
  EXPECT_GT(difference(logits(DType::f32), rounded), 0);
}

/// Keys and values are in pages, a prompt is read in parts, and a sequence gets the same bits alone and among others.
TEST_P(OnADevice, TheSameBitsAloneAsAmongOthers) {
  model_->to(device());
  std::vector<std::vector<Hypothesis>> alone;
  for (const Sequence& sequence : sequences()) {
    Engine engine(*model_, {});
    Sequence one = sequence;
    one.on_done = [&alone](std::vector<Hypothesis> best) { alone.push_back(std::move(best)); };
    engine.add(std::move(one));
    while (engine.step()) {
    }
  }
  expect_same(alone, written({.rows = 7}), 0);
  expect_same(alone, written({.prompt_tokens = 3}), 0);
  const int64_t page = Engine(*model_, {}).counters().page_bytes;
  ASSERT_GT(page, 0);
  expect_same(alone, written({.prompt_tokens = 5, .cache_bytes = 30 * page}), 0);
}

/// A prompt that begins like an earlier one takes over its pages.
TEST(PagesOnADevice, AreShared) {
  const auto model = tiny_model("gpt", kVocab);
  model->to(device());
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.push_back(5 + i % 7);
  const auto written = [&](Engine& engine) {
    std::vector<Hypothesis> result;
    Sequence one = testing::mixed_sequence(*model, prompt, 1, 23);  // a beam
    one.limit = 12;
    one.on_done = [&result](std::vector<Hypothesis> best) { result = std::move(best); };
    engine.add(std::move(one));
    while (engine.step()) {
    }
    return result;
  };
  Engine engine(*model, {});
  const auto first = written(engine);
  EXPECT_EQ(engine.counters().reused_tokens, 0);
  const auto second = written(engine);
  EXPECT_EQ(engine.counters().reused_tokens, 32);
  EXPECT_EQ(engine.counters().pages_used, 0);
  ASSERT_EQ(first.size(), second.size());
  EXPECT_EQ(first[0].ids, second[0].ids);
  EXPECT_EQ(first[0].log_probability, second[0].log_probability);
}

TEST_P(OnADevice, TheBestLogitsGiveWhatAllLogitsGive) {
  model_->to(device());
  expect_same(written({.rows = 7, .use_best = false}), written({.rows = 7}), 0);
}

/// An observer of a greedy text sees as many candidates as it asks for, although the search itself needs one.
TEST_P(OnADevice, AnObserverSeesItsCandidates) {
  model_->to(device());
  Engine engine(*model_, {});
  Sequence one = testing::mixed_sequence(*model_, random_sources(1, 5, 5, 8)[0], 0, 25);
  one.options = {.ends_at_limit = false};
  one.limit = 5;
  one.candidates = 10;
  int steps = 0;
  one.on_step = [&](const SequenceStep& step) {
    std::vector<Continuation> best;
    step.rows.best_of(0, 10, {.size = one.vocabulary.size}, best);
    EXPECT_EQ(best.size(), 10u);
    for (const Continuation& word : best) EXPECT_TRUE(std::isfinite(step.rows.log_probability(0, word.id)));
    return ++steps < 3;
  };
  engine.add(one);
  while (engine.step()) {
  }
  EXPECT_GT(steps, 0);
}

/// After the first steps, a step launches one graph and waits once, for its best logits.
TEST_P(OnADevice, AStepIsOneGraphAndOneWait) {
  if (std::string_view(GetParam().name) == "transformer_relative") GTEST_SKIP() << "its bias grows with each step";
  model_->to(device());
  Engine engine(*model_, {});
  for (const std::vector<int32_t>& ids : random_sources(3, 5, 5, 8)) {
    Sequence one = testing::mixed_sequence(*model_, ids, 0, 25);
    one.options = {.ends_at_limit = false};
    one.limit = 20;
    one.vocabulary.ends = {};
    engine.add(std::move(one));
  }
  for (int i = 0; i < 5; ++i) engine.step();
  const DeviceCounters before = device_counters();
  for (int i = 0; i < 10; ++i) engine.step();
  EXPECT_EQ(device_counters().graph_launches, before.graph_launches + 10);
  EXPECT_EQ(device_counters().synchronizations, before.synchronizations + 10);
  EXPECT_LE(device_counters().launches, before.launches + 40);
}

INSTANTIATE_TEST_SUITE_P(
    All, OnADevice,
    ::testing::Values(ModelCase{"transformer", "transformer"},
                      ModelCase{"transformer_relative", "transformer", {{"positions", "relative"}}},
                      ModelCase{"gpt", "gpt"}, ModelCase{"gpt_rotary", "gpt", {{"positions", "rotary"}}},
                      ModelCase{"gpt_alibi", "gpt", {{"positions", "alibi"}}},
                      ModelCase{"gpt_sinusoidal", "gpt", {{"positions", "sinusoidal"}}},
                      ModelCase{"gpt_llama",
                                "gpt",
                                {{"positions", "rotary"},
                                 {"window", "5"},
                                 {"key_heads", "1"},
                                 {"gated", "true"},
                                 {"rms_norm", "true"},
                                 {"qk_norm", "true"},
                                 {"activation", "silu"}}}),
    [](const auto& param) { return param.param.name; });

/// Caches of more than 256 positions change their capacity.
TEST(Engine, LongTextsOnADevice) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "600"}});
  const auto write = [&] {
    Sequence one{.prompt = {5, 6, 7}, .vocabulary = {.size = kVocab, .banned = {}}, .limit = 590};
    one.options.ends_at_limit = false;
    std::vector<Hypothesis> result;
    one.on_done = [&](std::vector<Hypothesis> best) { result = std::move(best); };
    Engine engine(*model, {});
    engine.add(std::move(one));
    while (engine.step()) {
    }
    return result;
  };
  const auto expected = write();
  model->to(device());
  const auto got = write();
  ASSERT_EQ(expected.size(), got.size());
  if (is_pretended()) {
    EXPECT_EQ(expected[0].ids, got[0].ids);
  }
  EXPECT_EQ(expected[0].ids.size(), got[0].ids.size());
}

}  // namespace
}  // namespace attend
