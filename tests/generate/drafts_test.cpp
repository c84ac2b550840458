// Drafts change neither a token nor a bit; they save steps. invariance_test.cpp runs them among other sequences.
#include <gtest/gtest.h>

#include <bit>

#include "attend/base/error.h"
#include "attend/generate/generate_text.h"
#include "attend/generate/search.h"
#include "attend/grammar/constraint.h"
#include "attend/grammar/json_schema.h"
#include "generate/byte_tokenizer.h"
#include "generate/mixed_sequences.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::kVocab;
using testing::tiny_model;
using Ids = std::vector<int32_t>;

constexpr EngineOptions kPlain{.draft_tokens = 0};
constexpr EngineOptions kDrafts{.draft_tokens = 7, .draft_cost = 0};  // as many as possible

/// A text, the bits of each step, and the number of steps of the engine.
struct Written {
  Ids ids;
  std::vector<uint64_t> bits;
  int64_t steps = 0;
};

Written write(Engine& engine, Sequence sequence) {
  Written result;
  sequence.on_step = [&](const SequenceStep& step) {
    result.ids.push_back(step.nodes[0].id);
    result.bits.push_back(std::bit_cast<uint64_t>(step.nodes[0].log_probability));
    for (const float logit : step.rows.logits) result.bits.push_back(std::bit_cast<uint32_t>(logit));
    return true;
  };
  engine.add(std::move(sequence));
  while (engine.step()) ++result.steps;
  return result;
}

void expect_equal(const Written& expected, const Written& got) {
  EXPECT_EQ(expected.ids, got.ids);
  EXPECT_TRUE(expected.bits == got.bits);
}

Ids counting(size_t count) {
  Ids ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = 5 + static_cast<int32_t>(i % 8);
  return ids;
}

Sequence greedy(Ids prompt, int64_t limit) {
  Sequence one{.prompt = std::move(prompt), .vocabulary = {.size = kVocab, .banned = {0, 1, 2}}, .limit = limit};
  one.options.ends_at_limit = false;
  return one;
}

TEST(Drafts, ARepetitiveTextTakesFewerSteps) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  Engine plain(*model, kPlain), drafting(*model, kDrafts);
  const Written expected = write(plain, greedy({5, 6, 7}, 200)), got = write(drafting, greedy({5, 6, 7}, 200));
  expect_equal(expected, got);
  EXPECT_EQ(expected.steps, 200);
  EXPECT_LT(got.steps, 100);
  const EngineCounters counters = drafting.counters();
  EXPECT_EQ(counters.accepted_tokens, 200 - got.steps);
  EXPECT_GE(counters.drafted_tokens, counters.accepted_tokens);
  EXPECT_EQ(counters.pages_used, 0);
  EXPECT_EQ(plain.counters().drafted_tokens, 0);
}

TEST(Drafts, ExpensiveGuessesAreNotMade) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  Engine engine(*model, {.draft_cost = 1});
  EXPECT_EQ(write(engine, greedy({5, 6, 7}, 100)).steps, 100);
  EXPECT_EQ(engine.counters().drafted_tokens, 0);
}

TEST(Drafts, LimitsAreTheSame) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "64"}, {"positions", "rotary"}});
  for (const int64_t limit : {1, 2, 3, 15, 16, 17, 48}) {
    SCOPED_TRACE(limit);
    for (const bool samples : {false, true}) {
      Sequence one = greedy(counting(16), limit);
      if (samples) one.options.sampling = SamplingOptions{.temperature = 0.3, .seed = 2};
      Engine plain(*model, kPlain);
      // Memory for this sequence alone: drafts take no page more.
      const EngineCounters sizes = plain.counters();
      const int64_t pages = (16 + limit + sizes.page_tokens - 1) / sizes.page_tokens;
      EngineOptions tight = kDrafts;
      tight.cache_bytes = pages * sizes.page_bytes;
      Engine drafting(*model, tight);
      expect_equal(write(plain, one), write(drafting, one));
    }
  }
}

TEST(Drafts, ASlidingTextIsTheSame) {
  for (const char* positions : {"rotary", "learned"}) {
    const auto model = tiny_model("gpt", kVocab, {{"context", "24"}, {"positions", positions}});
    for (const double temperature : {0.0, 0.5}) {
      Sequence one = greedy(counting(20), 120);
      one.slides = true;
      one.options.sampling = SamplingOptions{.temperature = temperature, .seed = 3};
      Engine plain(*model, kPlain), drafting(*model, kDrafts);
      const Written expected = write(plain, one), got = write(drafting, one);
      expect_equal(expected, got);
      EXPECT_EQ(got.ids.size(), 120U);
      EXPECT_GT(drafting.counters().accepted_tokens, 0);
    }
  }
}

TEST(Drafts, KnownPrefixesHoldOnlyAcceptedTokens) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  for (const double temperature : {2, 4, 8}) {  // right and wrong guesses
    SCOPED_TRACE(temperature);
    Sequence one = greedy(counting(20), 100);
    one.options.sampling = SamplingOptions{.temperature = temperature, .seed = 5};
    Engine plain(*model, kPlain), drafting(*model, kDrafts);
    const Written expected = write(plain, one);
    expect_equal(expected, write(drafting, one));
    EXPECT_GT(drafting.counters().drafted_tokens, drafting.counters().accepted_tokens);
    EXPECT_GT(drafting.counters().accepted_tokens, 0);
    // Texts that begin with this one take over its keys and values.
    for (const size_t kept : {size_t{31}, size_t{64}, expected.ids.size()}) {
      Sequence next = greedy(one.prompt, 60);
      next.prompt.insert(next.prompt.end(), expected.ids.begin(), expected.ids.begin() + static_cast<ptrdiff_t>(kept));
      Engine fresh(*model, kPlain);
      const int64_t before = drafting.counters().reused_tokens;
      expect_equal(write(fresh, next), write(drafting, next));
      EXPECT_GT(drafting.counters().reused_tokens, before);
    }
    EXPECT_EQ(drafting.counters().pages_used, 0);
  }
}

TEST(Drafts, ACallbackEndsATextAtItsToken) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  for (const int64_t last : {1, 30, 31, 32, 33, 34, 35, 36}) {
    Engine engine(*model, kDrafts);
    int64_t tokens = 0;
    Sequence one = greedy({5, 6, 7}, 200);
    one.on_step = [&](const SequenceStep&) { return ++tokens < last; };
    one.on_done = [](const auto&) { FAIL() << "cancelled"; };
    engine.add(std::move(one));
    while (engine.step()) {
    }
    EXPECT_EQ(tokens, last);
    EXPECT_EQ(engine.counters().pages_used, 0);
  }
}

TEST(Drafts, BeamsAndTracedSequencesHaveNone) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  Sequence beam = greedy({5, 6, 7}, 60), traced = beam;
  beam.options.beam = 3;
  traced.is_traced = true;
  Engine engine(*model, kDrafts);
  engine.add(std::move(beam));
  engine.add(std::move(traced));
  while (engine.step()) {
  }
  EXPECT_EQ(engine.counters().drafted_tokens, 0);
}

TEST(Drafts, ManySequencesTurnThemOff) {
  const auto model = tiny_model("gpt", kVocab, {{"context", "256"}});
  Engine engine(*model, kDrafts);
  for (int i = 0; i < 16; ++i) engine.add(greedy({5, 6, 5 + i % 8}, 40));
  while (engine.step()) {
  }
  EXPECT_EQ(engine.counters().drafted_tokens, 0);
}

TEST(Drafts, ATranslationCopiesFromItsSource) {
  const auto model = testing::created({"transformer", "transformer"}, 400);
  Sequence one{.source = counting(40), .prompt = {2}, .vocabulary = {.size = kVocab, .banned = {0, 1, 2}}, .limit = 50};
  one.vocabulary.ends = {3};
  Engine plain(*model, kPlain), drafting(*model, kDrafts);
  const Written expected = write(plain, one), got = write(drafting, one);
  expect_equal(expected, got);
  EXPECT_LT(got.steps, expected.steps);
}

TEST(Drafts, WrongOptionsAreErrors) {
  const auto model = tiny_model("gpt", kVocab);
  for (const int64_t tokens : {int64_t{-1}, kMostDraftTokens + 1}) {
    try {
      Engine engine(*model, {.draft_tokens = tokens});
      FAIL() << "accepted";
    } catch (const ShapeError& error) {
      EXPECT_EQ(std::string(error.what()), "engine: draft_tokens must be from 0 to 15, got " + std::to_string(tokens));
    }
  }
}

class DraftedTexts : public ::testing::Test {
 protected:
  void expect_same(GenerateOptions options) {
    const std::vector<std::string> prompts{"abcabcab", "", "the cat, the cat and the", "x"};
    options.draft_tokens = 0;
    const auto expected = generate_text(gpt_, tokenizer_, prompts, options);
    for (const int64_t tokens : {int64_t{3}, kMostDraftTokens}) {
      options.draft_tokens = tokens;
      const auto texts = generate_text(gpt_, tokenizer_, prompts, options);
      ASSERT_EQ(texts.size(), expected.size());
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(texts[i].text, expected[i].text) << i;
        EXPECT_EQ(texts[i].ids, expected[i].ids) << i;
        EXPECT_EQ(std::bit_cast<uint64_t>(texts[i].log_probability),
                  std::bit_cast<uint64_t>(expected[i].log_probability));
        EXPECT_EQ(texts[i].ending, expected[i].ending) << i;
      }
    }
  }

  ByteTokenizer tokenizer_{128, 0};
  std::unique_ptr<Model> model_ = tiny_model("gpt", tokenizer_.size(), {{"context", "64"}});
  const LanguageModel& gpt_ = dynamic_cast<const LanguageModel&>(*model_);
};

TEST_F(DraftedTexts, AreTheSameWithSamplesPenaltiesAndStops) {
  const GenerateOptions options{.tokens = 90, .sampling = {.temperature = 0.5, .seed = 7}, .copies = 3};
  expect_same(options);
  GenerateOptions changed = options;
  changed.sampling = {.temperature = 0};
  expect_same(changed);
  const std::string text = generate_text(gpt_, tokenizer_, "abcabcab", changed);
  changed.stop = {text.substr(40, 2), "zz"};
  expect_same(changed);
  changed = options;
  changed.sampling.repetition_penalty = 1.3;
  changed.sampling.top_k = 5;
  expect_same(changed);
  changed.sampling = {.temperature = 0.4, .top_p = 0.8, .frequency_penalty = 0.5, .presence_penalty = 0.2};
  expect_same(changed);
  changed.goes_past_end = true;
  changed.rules.no_repeat = 4;
  expect_same(changed);
}

TEST_F(DraftedTexts, AreTheSameInAFormat) {
  const auto list = Constraint::create(
      json_schema_grammar(Json::parse(
          R"({"type":"array","minItems":6,"maxItems":8,"items":{"type":"object","properties":{"name":{"type":"string",
          "maxLength":4},"ok":{"type":"boolean"}},"required":["name","ok"]}})")),
      std::make_shared<const TokenTrie>(tokenizer_));
  for (const double temperature : {0.0, 0.7}) {
    expect_same({.tokens = 250, .sampling = {.temperature = temperature}, .constraint = list});
    Sequence one{.prompt = {70, 71}, .vocabulary = Vocabulary::of(tokenizer_, gpt_.vocab_size()), .limit = 250};
    one.slides = true;
    one.options = {.ends_at_limit = false, .sampling = SamplingOptions{.temperature = temperature}, .constraint = list};
    Engine plain(gpt_, kPlain), drafting(gpt_, kDrafts);
    expect_equal(write(plain, one), write(drafting, one));
    EXPECT_GT(drafting.counters().accepted_tokens, 0);
  }
}

}  // namespace
}  // namespace attend
