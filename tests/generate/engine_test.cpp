// Sequences of every kind join and leave a running batch, and each gives the same result as alone.
#include "generate/engine.h"
#include "generate/prompt_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "generate/mixed_sequences.h"

namespace attend {
namespace {

using testing::kVocab;
using testing::ModelCase;
using testing::random_sources;
using testing::tiny_model;

struct Outcome {
  std::vector<Hypothesis> best;
  std::vector<std::vector<float>> looked;  // attention from the first row of each step, all modules one after the other
};

class EveryModelWrites : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override { model_ = testing::created(GetParam(), 60); }

  /// Greedy, beam and sampled sequences, short and long, some of them traced.
  std::vector<Sequence> sequences() const {
    std::vector<Sequence> result;
    for (const std::vector<int32_t>& ids : random_sources(24, 12, 5, 8)) {
      const auto i = result.size();
      Sequence one = testing::mixed_sequence(*model_, ids, i, 17);
      one.is_traced = i % 4 == 0;
      result.push_back(std::move(one));
    }
    return result;
  }

  void add(Engine& engine, Sequence sequence, Outcome& outcome) const {
    sequence.on_step = [&outcome, is_traced = sequence.is_traced](const SequenceStep& step) {
      EXPECT_EQ(is_traced, step.traces != nullptr);
      if (!is_traced) return true;
      outcome.looked.emplace_back();
      for (const AttentionTrace& trace : *step.traces) {
        std::vector<float> weights = step.attention_of(trace, 0);
        while (!weights.empty() && weights.back() == 0) weights.pop_back();  // padding of longer neighbours
        std::ranges::copy(weights, std::back_inserter(outcome.looked.back()));
      }
      return true;
    };
    sequence.on_done = [&outcome](std::vector<Hypothesis> best) {
      EXPECT_TRUE(outcome.best.empty()) << "reported twice";
      outcome.best = std::move(best);
    };
    engine.add(std::move(sequence));
  }

  std::vector<Outcome> alone() const {
    std::vector<Outcome> result;
    for (const Sequence& sequence : sequences()) {
      Engine engine(*model_, {});
      add(engine, sequence, result.emplace_back());
      while (engine.step()) {
      }
    }
    return result;
  }

  static void expect_same(const std::vector<Outcome>& expected, const std::vector<Outcome>& got) {
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(expected[i].best.size(), got[i].best.size()) << i;
      for (size_t j = 0; j < got[i].best.size(); ++j) {
        EXPECT_EQ(expected[i].best[j].ids, got[i].best[j].ids) << i;
        EXPECT_NEAR(expected[i].best[j].log_probability, got[i].best[j].log_probability, 1e-4) << i;
      }
      ASSERT_EQ(expected[i].looked.size(), got[i].looked.size()) << i;
      for (size_t step = 0; step < got[i].looked.size(); ++step) {
        ASSERT_EQ(expected[i].looked[step].size(), got[i].looked[step].size()) << i << ", step " << step;
        for (size_t k = 0; k < got[i].looked[step].size(); ++k) {
          EXPECT_NEAR(expected[i].looked[step][k], got[i].looked[step][k], 1e-5) << i << ", step " << step;
        }
      }
    }
  }

  std::unique_ptr<Model> model_;
};

TEST_P(EveryModelWrites, TheSameInABatchAsAlone) {
  std::vector<Outcome> expected = alone();
  for (const bool use_cache : {true, false}) {
    std::vector<Outcome> got(expected.size());
    Engine engine(*model_, {.rows = 7, .use_cache = use_cache});
    const std::vector<Sequence> all = sequences();
    for (size_t i = 0; i < all.size(); ++i) {
      Sequence one = all[i];
      if (!use_cache) one.is_traced = false, expected[i].looked.clear();  // each step reads everything: another trace
      add(engine, std::move(one), got[i]);
      if (i % 2 == 0) engine.step();  // later sequences join while these run
    }
    while (engine.step()) {
    }
    expect_same(expected, got);
    EXPECT_FALSE(engine.step());
  }
}

TEST_P(EveryModelWrites, TheSameWhenOthersAreCancelled) {
  const std::vector<Outcome> expected = alone();
  std::vector<Outcome> got(expected.size());
  Engine engine(*model_, {.rows = 11});
  const std::vector<Sequence> all = sequences();
  int64_t ended = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    Sequence cancelled = all[i];
    cancelled.is_traced = false;
    cancelled.on_step = [left = static_cast<int>(i % 5), &ended](const SequenceStep&) mutable {
      ended += left == 0 ? 1 : 0;
      return left-- > 0;
    };
    cancelled.on_done = [left = static_cast<int>(i % 5)](const auto&) {
      EXPECT_GT(left, 0) << "reported after it was ended";
    };
    engine.add(std::move(cancelled));
    add(engine, all[i], got[i]);
  }
  while (engine.step()) {
  }
  expect_same(expected, got);
  EXPECT_GT(ended, 0);
}

TEST_P(EveryModelWrites, ASequenceThatFillsTheContextDoesNotAffectOthers) {
  std::vector<Sequence> all = sequences();
  all.resize(9);
  all[0].limit = all[1].limit = 1000;  // up to the context
  const int64_t room = model_->context() - std::ssize(all[0].prompt);
  for (Sequence& one : all) one.limit = std::min(one.limit, room);
  all[0].vocabulary.ends = {12};
  all[0].vocabulary.banned.push_back(12);
  std::vector<Outcome> got(all.size());
  Engine engine(*model_, {.rows = 5});
  for (size_t i = 0; i < all.size(); ++i) add(engine, all[i], got[i]);
  while (engine.step()) {
  }
  for (const Outcome& one : got) EXPECT_FALSE(one.best.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryModelWrites,
    ::testing::Values(ModelCase{"rnn", "rnn"}, ModelCase{"rnn_attention", "rnn-attention"},
                      ModelCase{"rnn_luong", "rnn-attention", {{"score", "dot"}}},
                      ModelCase{"transformer", "transformer"},
                      ModelCase{"transformer_relative", "transformer", {{"positions", "relative"}}},
                      ModelCase{"transformer_learned", "transformer", {{"positions", "learned"}}},
                      ModelCase{"gpt", "gpt"}, ModelCase{"gpt_rotary", "gpt", {{"positions", "rotary"}}},
                      ModelCase{"gpt_alibi", "gpt", {{"positions", "alibi"}}},
                      ModelCase{"gpt_window", "gpt", {{"positions", "rotary"}, {"window", "5"}, {"key_heads", "1"}}}),
    [](const auto& param) { return param.param.name; });

TEST(Engine, ASlidingTextContinuesFromTheLastHalfOfTheContext) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "16"}, {"positions", "rotary"}});
  const auto written = [&](int64_t neighbours) {
    Engine engine(*model, {});
    std::vector<int32_t> ids;
    for (int64_t i = 0; i <= neighbours; ++i) {
      Sequence one{.prompt = {5, 6, static_cast<int32_t>(5 + i)},
                   .vocabulary = {.size = kVocab, .banned = {}},
                   .limit = 50,
                   .slides = true};
      one.options.sampling = SamplingOptions{.temperature = 0};
      one.options.ends_at_limit = false;
      if (i == 0) {
        one.on_step = [&ids](const SequenceStep& step) {
          ids.push_back(step.nodes[0].id);
          return true;
        };
      }
      engine.add(std::move(one));
    }
    while (engine.step()) {
    }
    return ids;
  };
  const std::vector<int32_t> alone = written(0);
  EXPECT_EQ(alone.size(), 50u);
  EXPECT_EQ(written(6), alone);
}

TEST(Engine, RefusesSequencesThatDoNotFit) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "8"}});
  Engine engine(*model, {});
  EXPECT_THROW(engine.add({.prompt = std::vector<int32_t>(9, 5)}), ShapeError);
  EXPECT_THROW(engine.add({}), ShapeError);
  EXPECT_THROW(Engine(*tiny_model("encoder", kVocab), {}), ShapeError);
  EXPECT_FALSE(engine.step());
}

Sequence continuation(std::vector<int32_t> prompt, int64_t limit) {
  Sequence one{.prompt = std::move(prompt),
               .vocabulary = {.size = kVocab, .banned = {0, 1, 2}, .begin = 2, .ends = {3}},
               .limit = limit};
  one.options.ends_at_limit = false;
  return one;
}

std::vector<int32_t> long_prompt(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = 5 + static_cast<int32_t>(i * i % 8);
  return ids;
}

TEST(Engine, ACommonBeginningIsReadOnce) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "128"}});
  Engine engine(*model, {});
  const int64_t page = engine.counters().page_tokens;
  std::vector<int32_t> system = long_prompt(40), other = system;
  system.insert(system.end(), {5, 6, 7});
  other.insert(other.end(), {8, 9});
  engine.add(continuation(system, 5));
  while (engine.step()) {
  }
  EXPECT_EQ(engine.counters().reused_tokens, 0);
  EXPECT_GT(engine.counters().pages_idle, 0);
  engine.add(continuation(other, 5));
  while (engine.step()) {
  }
  EXPECT_EQ(engine.counters().reused_tokens, 40 / page * page);
  EXPECT_EQ(engine.counters().prompt_tokens, std::ssize(system) + std::ssize(other));
  EXPECT_EQ(engine.counters().pages_used, 0);
}

TEST(Engine, HypothesesShareThePagesOfTheirPrompt) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "128"}});
  Engine engine(*model, {});
  Sequence one = continuation(long_prompt(96), 20);
  one.options.beam = 4;
  engine.add(std::move(one));
  engine.step();
  engine.step();
  const EngineCounters counters = engine.counters();
  EXPECT_LE(counters.pages_used, 96 / counters.page_tokens + 4);
  while (engine.step()) {
  }
}

TEST(Engine, LongPromptsAreReadBetweenTheTokensOfOthers) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  Engine engine(*model, {.prompt_tokens = 16});
  int64_t tokens = 0, steps = 0;
  Sequence first = continuation({5, 6}, 200);
  first.vocabulary.ends = {};
  first.on_step = [&](const SequenceStep&) { return ++tokens > 0; };
  engine.add(std::move(first));
  engine.step();
  bool is_answered = false;
  Sequence longer = continuation(long_prompt(160), 3);
  longer.on_step = [&](const SequenceStep&) { return is_answered = true; };
  engine.add(std::move(longer));
  EXPECT_EQ(engine.counters().waiting, 1);
  for (; !is_answered; ++steps) {
    const int64_t before = tokens;
    ASSERT_TRUE(engine.step());
    EXPECT_EQ(tokens, before + 1) << "a step without a token of the first sequence";
  }
  EXPECT_EQ(steps, 10);
  EXPECT_EQ(engine.counters().running, 2);
}

TEST(Engine, APromptThatIsNoLongerWantedIsNotReadToItsEnd) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "128"}});
  const auto sequence = [](int64_t asks, int& steps) {
    Sequence one{
        .prompt = std::vector<int32_t>(100, 5), .vocabulary = {.size = kVocab, .begin = 2, .ends = {3}}, .limit = 1};
    one.options.ends_at_limit = false;
    one.is_wanted = [asks]() mutable { return asks-- > 0; };
    one.on_step = [&steps](const SequenceStep&) { return ++steps < 0; };
    return one;
  };
  Engine engine(*model, {.prompt_tokens = 1});  // four while nothing runs
  int ended = 0, kept = 0, waiting = 0;
  engine.add(sequence(5, ended));
  engine.add(sequence(1000, kept));
  for (int step = 0; step < 4; ++step) engine.step();
  EXPECT_EQ(engine.counters().running, 2);
  engine.add(sequence(0, waiting));
  engine.step();
  EXPECT_EQ(engine.counters().running, 1);
  EXPECT_EQ(engine.counters().waiting, 0);
  while (engine.step()) {
  }
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(waiting, 0);
  EXPECT_EQ(kept, 1) << "read in the same row";
  EXPECT_EQ(engine.counters().pages_used, 0);
}

TEST(PromptPace, FollowsTheTimeOfEarlierSteps) {
  PromptPace pace(512, 0.08);
  EXPECT_EQ(pace.budget(), PromptPace::kFirst);
  // A token takes 2 ms, and 40 take 80 ms.
  pace.add(0, 4, 0.020);
  EXPECT_EQ(pace.budget(), PromptPace::kFirst);
  pace.add(64, 4, 68 * 0.002);
  EXPECT_EQ(pace.budget(), 40);
  // However many others there are.
  pace.add(40, 40, 80 * 0.002);
  EXPECT_NEAR(pace.budget(), 40, 1);
  // One step of 10 s, then usual ones.
  pace.add(40, 4, 10);
  EXPECT_GE(pace.budget(), 25);
  for (int i = 0; i < 20; ++i) pace.add(40, 4, 44 * 0.002);
  EXPECT_NEAR(pace.budget(), 40, 1);
  // Slower and faster machines.
  for (int i = 0; i < 40; ++i) pace.add(40, 4, 10);
  EXPECT_EQ(pace.budget(), PromptPace::kLeast);
  for (int i = 0; i < 60; ++i) pace.add(16, 4, 0.0001);
  EXPECT_EQ(pace.budget(), 512);
  EXPECT_EQ(PromptPace(7, 0.08).budget(), 7);
  EXPECT_EQ(PromptPace(100, 0).budget(), 100);
}

TEST(Engine, WaitsForPagesAndRefusesWhatNeverFits) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "128"}});
  const int64_t page = Engine(*model, {}).counters().page_bytes;
  Engine engine(*model, {.cache_bytes = 3 * page});
  EXPECT_EQ(engine.counters().pages_total, 3);
  try {
    engine.add(continuation(long_prompt(40), 20));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "engine: a sequence needs up to " + std::to_string(4 * page) +
                                             " bytes for its keys and values, but the limit is " +
                                             std::to_string(3 * page));
  }
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) {
    Sequence one = continuation(long_prompt(static_cast<size_t>(20 + i)), 10);
    one.on_done = [&order, i](const auto&) { order.push_back(i); };
    engine.add(std::move(one));
  }
  do {
    EXPECT_LE(engine.counters().running, 1);
    EXPECT_LE(engine.counters().pages_used, 3);
  } while (engine.step());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace attend
