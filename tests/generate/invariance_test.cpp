// The same request gets the same bits, alone or among others: tokens, log probabilities and attention weights. On the
// CPU, or on the device named by ATTEND_TEST_DEVICE.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "attend/backend/devices.h"
#include "attend/base/threads.h"
#include "attend/generate/score.h"
#include "attend/models/model.h"
#include "attend/ops/precision.h"
#include "generate/byte_tokenizer.h"
#include "generate/mixed_sequences.h"

namespace attend {
namespace {

using testing::kVocab;
using testing::ModelCase;

Device device() {
  const char* name = std::getenv("ATTEND_TEST_DEVICE");
  return name == nullptr ? kCpu : parse_device(name);
}

/// What a request got: its hypotheses, and the bits of every log probability and attention weight of each step.
struct Answer {
  std::vector<std::vector<int32_t>> ids;
  std::vector<uint64_t> bits;
  bool operator==(const Answer&) const = default;
};

class TheSameBits : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override { threads_before_ = threads(); }
  void TearDown() override { set_threads(threads_before_); }

  void create(WeightFormat format) {
    model_ = testing::created(GetParam(), 40);
    model_->to(device());
    set_weight_format(*model_, format);
  }

  /// 64 different requests: greedy, sampled, with beams of 3 and 4, some of them traced.
  std::vector<Sequence> requests(size_t spread = 11) const {
    std::vector<Sequence> result;
    for (const std::vector<int32_t>& ids : testing::random_sources(64, 40, 5, 8)) {
      const auto i = result.size();
      Sequence one = testing::mixed_sequence(*model_, ids, i, spread);
      if (i % 3 == 1) one.options.beam = i % 2 == 0 ? 3 : 4, one.options.n_best = 2;
      one.is_traced = i % 8 == 0;
      result.push_back(std::move(one));
    }
    return result;
  }

  static void add(Engine& engine, Sequence sequence, Answer& answer) {
    sequence.on_step = [&answer, is_traced = sequence.is_traced](const SequenceStep& step) {
      for (const WrittenNode& node : step.nodes) answer.bits.push_back(std::bit_cast<uint64_t>(node.log_probability));
      if (!is_traced) return true;
      for (const AttentionTrace& trace : *step.traces) {
        for (const float weight : step.attention_of(trace, 0)) answer.bits.push_back(std::bit_cast<uint32_t>(weight));
      }
      return true;
    };
    sequence.on_done = [&answer](const std::vector<Hypothesis>& best) {
      for (const Hypothesis& one : best) {
        answer.ids.push_back(one.ids);
        answer.bits.push_back(std::bit_cast<uint64_t>(one.log_probability));
      }
    };
    engine.add(std::move(sequence));
  }

  std::vector<Answer> alone(size_t spread = 11) const {
    std::vector<Answer> answers;
    for (const Sequence& sequence : requests(spread)) {
      Engine engine(*model_, {.cache_type = cache_type_, .draft_tokens = 0});
      add(engine, sequence, answers.emplace_back());
      while (engine.step()) {
      }
    }
    return answers;
  }

  /// All requests in a random order. A third of them also run a second time and are cancelled midway.
  std::vector<Answer> among_others(EngineOptions options, uint64_t seed, int64_t steps_between, size_t spread = 11) {
    options.cache_type = cache_type_;
    const std::vector<Sequence> all = requests(spread);
    std::vector<Answer> answers(all.size());
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[philox(seed, i, 0)[0] % i]);
    Engine engine(*model_, options);
    for (size_t n = 0; n < order.size(); ++n) {
      const size_t i = order[n];
      if (philox(seed, n, 1)[0] % 3 == 0) {
        Sequence cancelled = all[i];
        cancelled.on_step = [left = philox(seed, n, 2)[0] % 6](const SequenceStep&) mutable { return left-- > 0; };
        engine.add(std::move(cancelled));
      }
      add(engine, all[i], answers[i]);
      if (steps_between > 0 && n % static_cast<size_t>(steps_between) == 0) engine.step();
    }
    while (engine.step()) {
    }
    accepted_ += engine.counters().accepted_tokens;
    return answers;
  }

  static void expect_equal(const std::vector<Answer>& expected, const std::vector<Answer>& got) {
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(expected[i] == got[i]) << "request " << i;
  }

  /// Runs the rest of the test with keys and values in bf16. Returns false if the model has none.
  bool use_narrow_cache() {
    if (Engine(*model_, {}).counters().page_bytes == 0) return false;
    cache_type_ = DType::bf16;
    return true;
  }

  std::unique_ptr<Model> model_;
  std::optional<DType> cache_type_;
  int64_t accepted_ = 0;  // tokens of drafts

 private:
  int threads_before_ = 1;
};

TEST_P(TheSameBits, AloneAndAmongOthers) {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    SCOPED_TRACE(name_of(format));
    create(format);
    set_threads(1);
    const std::vector<Answer> expected = alone();
    expect_equal(expected, among_others({}, 1, 0));  // all at once
    uint64_t seed = 2;
    for (const int count : {2, 7}) {
      set_threads(count);
      expect_equal(expected, among_others({.rows = 40}, seed++, 3));
    }
  }
}

TEST_P(TheSameBits, WithKeysAndValuesInBf16) {
  create(WeightFormat::f32);
  set_threads(1);
  const std::vector<Answer> exact = alone();
  if (!use_narrow_cache()) GTEST_SKIP() << "no keys and values";
  const std::vector<Answer> expected = alone();
  EXPECT_FALSE(expected == exact);
  set_threads(2);
  uint64_t seed = 60;
  expect_equal(expected, among_others({}, seed++, 0));
  for (const int64_t tokens : {1, 7, 64}) {
    expect_equal(expected, among_others({.rows = 40, .prompt_tokens = tokens}, seed++, 2));
  }
  const int64_t page = Engine(*model_, {.cache_type = cache_type_}).counters().page_bytes;
  EXPECT_EQ(2 * page, Engine(*model_, {.cache_type = DType::f32}).counters().page_bytes);
  expect_equal(expected, among_others({.prompt_tokens = 64, .cache_bytes = 40 * page}, seed++, 0));
  if (device() != kCpu) return;
  set_threads(7);
  expect_equal(expected, among_others({.rows = 5, .draft_tokens = 7, .draft_cost = 0}, seed++, 2));
}

TEST_P(TheSameBits, OfInt8WeightsWithKeysAndValuesInBf16) {
  create(WeightFormat::int8);
  set_threads(1);
  const std::vector<Answer> expected = alone();
  const int64_t page = Engine(*model_, {}).counters().page_bytes;
  if (!use_narrow_cache()) GTEST_SKIP() << "no keys and values";
  EXPECT_EQ(2 * page, Engine(*model_, {.cache_type = DType::f32}).counters().page_bytes);
  expect_equal(expected, alone());
}

TEST_P(TheSameBits, HoweverPromptsAreCutAndWhateverIsCached) {
  create(WeightFormat::f32);
  set_threads(2);
  const std::vector<Answer> expected = alone();
  uint64_t seed = 20;
  for (const int64_t tokens : {1, 7, 64}) {
    SCOPED_TRACE(tokens);
    expect_equal(expected, among_others({.rows = 40, .prompt_tokens = tokens}, seed++, 2));
  }
  const int64_t page = Engine(*model_, {}).counters().page_bytes;
  if (page == 0) return;
  // Memory for a few sequences: others wait, and the pages of earlier prompts are evicted.
  expect_equal(expected, among_others({.prompt_tokens = 64, .cache_bytes = 40 * page}, seed++, 0));
  // All pages of a prompt but the last are reused.
  std::vector<Answer> first(expected.size()), second(expected.size());
  Engine engine(*model_, {.prompt_tokens = 7});
  for (std::vector<Answer>* answers : {&first, &second}) {
    const std::vector<Sequence> all = requests();
    for (size_t i = 0; i < all.size(); ++i) add(engine, all[i], (*answers)[i]);
    while (engine.step()) {
    }
    expect_equal(expected, *answers);
    EXPECT_EQ(engine.counters().pages_used, 0);
  }
  const bool shares = model_->kind() == ModelKind::language;
  EXPECT_EQ(engine.counters().reused_tokens > 0, shares);
}

TEST_P(TheSameBits, WithDrafts) {
  constexpr size_t kSpread = 22;  // longer texts
  uint64_t seed = 40;
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    SCOPED_TRACE(name_of(format));
    create(format);
    const int64_t page = Engine(*model_, {}).counters().page_bytes;
    if (page == 0 || device() != kCpu) GTEST_SKIP() << "no drafts";
    set_threads(1);
    const std::vector<Answer> expected = alone(kSpread);
    accepted_ = 0;
    // Few sequences at a time, so that there are drafts; as many guesses as possible, right and wrong ones.
    EngineOptions options{.rows = 5, .draft_tokens = 7, .draft_cost = 0};
    expect_equal(expected, among_others(options, seed++, 2, kSpread));
    EXPECT_GT(accepted_, 0);
    set_threads(2);
    options.prompt_tokens = 7;
    options.cache_bytes = 20 * page;
    options.draft_tokens = kMostDraftTokens;
    expect_equal(expected, among_others(options, seed++, 0, kSpread));
    set_threads(7);
    expect_equal(expected, among_others({.rows = 3}, seed++, 1, kSpread));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TheSameBits,
    ::testing::Values(
        ModelCase{"gpt", "gpt", {{"dim", "32"}}}, ModelCase{"gpt_alibi", "gpt", {{"positions", "alibi"}}},
        ModelCase{"gpt_llama",
                  "gpt",
                  {{"positions", "rotary"}, {"dim", "40"}, {"heads", "4"}, {"key_heads", "2"}, {"rms_norm", "true"}}},
        ModelCase{"gpt_window", "gpt", {{"positions", "alibi"}, {"window", "5"}, {"key_heads", "1"}}},
        ModelCase{"transformer", "transformer"},
        ModelCase{"transformer_relative", "transformer", {{"positions", "relative"}}},
        ModelCase{"rnn_attention", "rnn-attention"}, ModelCase{"rnn_luong", "rnn-attention", {{"score", "dot"}}}),
    [](const auto& param) { return param.param.name; });

/// Rounded activations are used with bf16 weights on processors that have such products.
TEST(SameBits, WithRoundedActivations) {
  if (!has_bf16(device())) GTEST_SKIP() << "no bf16 products";
  const PrecisionScope precision(Precision::bf16, device());
  // Rows of up to 1,024 numbers and longer ones, and many columns, have kernels of their own on a GPU.
  const auto model = testing::tiny_model("gpt", device() == kCpu ? 300 : 20000,
                                         {{"dim", "64"}, {"ffn_dim", device() == kCpu ? "256" : "2048"}});
  model->to(device());
  set_weight_format(*model, WeightFormat::bf16);
  const auto run = [&](size_t first, size_t last, const EngineOptions& options = {.draft_tokens = 0}) {
    std::vector<std::vector<uint64_t>> bits(last - first);
    Engine engine(*model, options);
    for (size_t i = first; i < last; ++i) {
      Sequence one{.prompt = {static_cast<int32_t>(i + 5), 7, 9},
                   .vocabulary = {.size = model->vocab_size(), .banned = {}, .begin = 2, .ends = {3}},
                   .limit = 24};
      one.on_step = [&own = bits[i - first]](const SequenceStep& step) {
        own.push_back(std::bit_cast<uint64_t>(step.nodes[0].log_probability));
        return true;
      };
      engine.add(std::move(one));
    }
    while (engine.step()) {
    }
    return bits;
  };
  const auto together = run(0, 250);
  for (const size_t i : {0, 17, 249}) EXPECT_EQ(together[i], run(i, i + 1)[0]);
  const auto some = run(100, 112);
  for (size_t i = 0; i < some.size(); ++i) EXPECT_EQ(together[100 + i], some[i]);
  const auto drafted = run(100, 104, {.draft_cost = 0});
  for (size_t i = 0; i < drafted.size(); ++i) EXPECT_EQ(together[100 + i], drafted[i]);
}

TEST(SameBits, ATextIsScoredAloneAsAmongOthers) {
  const testing::ByteTokenizer tokenizer(64, 64);
  const std::vector<std::string> texts{"ONCE", "upon a time there lived a queen and a king", "x",
                                       "the longest of all these texts has more than sixty-four tokens in it, has it"};
  for (const auto& settings :
       {std::map<std::string, std::string>{}, {{"positions", "rotary"}, {"dim", "64"}, {"key_heads", "1"}}}) {
    const auto model = testing::tiny_model("gpt", tokenizer.size(), settings);
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      const auto own = testing::tiny_model("gpt", tokenizer.size(), settings);
      own->to(device());
      set_weight_format(*own, format);
      const auto& language = dynamic_cast<const LanguageModel&>(*own);
      const auto together = score_texts(language, tokenizer, texts, {});
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto single = score_texts(language, tokenizer, std::span(&texts[i], 1), {});
        EXPECT_EQ(together[i].log_probabilities, single[0].log_probabilities) << texts[i];
      }
    }
  }
}

TEST(SameBits, APairIsScoredAloneAsAmongOthers) {
  const testing::ByteTokenizer tokenizer(64, 64);
  const std::vector<std::string> sources{"abc", "a longer sentence", "d"}, targets{"xyz", "q", "another long one"};
  for (const char* architecture : {"transformer", "rnn-attention", "rnn"}) {
    const auto model = testing::tiny_model(architecture, tokenizer.size());
    model->to(device());
    const auto& pair = dynamic_cast<const PairModel&>(*model);
    const auto together = score_pairs(pair, tokenizer, sources, targets, {});
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto single = score_pairs(pair, tokenizer, std::span(&sources[i], 1), std::span(&targets[i], 1), {});
      EXPECT_EQ(together[i].log_probabilities, single[0].log_probabilities) << architecture << ' ' << sources[i];
    }
  }
}

}  // namespace
}  // namespace attend
