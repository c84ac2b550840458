// The generation rules of a model folder: forced tokens, banned tokens, lengths, repetitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attend/generate/embed.h"
#include "attend/generate/search.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::random_sources;
using testing::tiny_model;

class Rules : public ::testing::Test {
 protected:
  std::vector<Hypothesis> found(const GenerationRules& rules, SearchOptions options = {}) const {
    options.rules = rules;
    if (options.max_length == 0) options.max_length = 12;
    std::vector<Hypothesis> result;
    search(dynamic_cast<const PairModel&>(*model_), tokenizer_, random_sources(1, 5, 5, 7), options,
           [&](int64_t, std::vector<Hypothesis> best) { result = std::move(best); });
    return result;
  }

  ByteTokenizer tokenizer_{12, 'a'};
  std::unique_ptr<Model> model_ = tiny_model("transformer", tokenizer_.size());
};

TEST_F(Rules, FirstAndLastTokensCanBeForced) {
  for (const int64_t beam : {1, 3}) {
    const auto first = found({.forced_first = 9}, {.beam = beam});
    EXPECT_EQ(first[0].ids.at(0), 9);
    const GenerationRules rules{.as_transformers = true, .ends = {16}, .forced_last = 16, .banned = {3, 16}};
    SearchOptions options{.beam = beam, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 5};
    const auto last = found(rules, options);
    EXPECT_EQ(last[0].ids.size(), 4u);  // and the end token, which is not in the list
    options.rules.forced_last = -1;
    GenerationRules open = rules;
    open.forced_last = -1;
    EXPECT_EQ(found(open, options)[0].ids.size(), 5u);
    EXPECT_TRUE(found(open, options)[0].is_cut);
  }
}

TEST_F(Rules, BannedTokensAndAnotherStart) {
  const auto free = found({.as_transformers = true});
  ASSERT_FALSE(free[0].ids.empty());
  GenerationRules rules{.as_transformers = true, .banned = {free[0].ids[0]}};
  const auto without = found(rules, {.beam = 4});
  for (const int32_t id : without[0].ids) EXPECT_NE(id, free[0].ids[0]);
  std::set<std::vector<int32_t>> written;
  for (int32_t start = 5; start < 12; ++start) written.insert(found({.start = start}, {.max_length = 6})[0].ids);
  EXPECT_GT(written.size(), 1u);
}

TEST_F(Rules, MinimumLengthAndNoRepeatedNGrams) {
  for (const int64_t beam : {1, 4}) {
    const auto usual = found({.as_transformers = true, .ends = {3, 5, 6, 7, 8}}, {.beam = beam});
    const auto later = found({.as_transformers = true, .ends = {3, 5, 6, 7, 8}, .min_length = 8}, {.beam = beam});
    EXPECT_GE(later[0].ids.size(), 7u);
    EXPECT_LE(usual[0].ids.size(), later[0].ids.size());
    const auto pairs = found({.as_transformers = true, .ends = {3}, .banned = {3}, .no_repeat = 2},
                             {.beam = beam, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 20});
    std::set<std::pair<int32_t, int32_t>> seen;
    const auto& ids = pairs[0].ids;
    ASSERT_EQ(ids.size(), 20u);
    for (size_t i = 1; i < ids.size(); ++i) EXPECT_TRUE(seen.emplace(ids[i - 1], ids[i]).second) << i;
  }
}

/// The same penalty applied by hand: greedy search on logits, counting the start token (2) as generated.
std::vector<int32_t> greedy_by_hand(const PairModel& model, double penalty, size_t length) {
  const auto source = random_sources(1, 5, 5, 7)[0];
  const auto decoding = model.start(tensor<int64_t>({source.begin(), source.end()}, {1, std::ssize(source)}), {});
  std::vector<int32_t> ids{2};
  while (ids.size() <= length) {
    auto logits = decoding->step(tensor<int64_t>({ids.back()}, {1, 1})).to_vector<double>();
    for (const int32_t id : std::set<int32_t>(ids.begin(), ids.end())) {
      double& logit = logits[static_cast<size_t>(id)];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
    ids.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  return {ids.begin() + 1, ids.end()};
}

TEST_F(Rules, GreedySearchPenalizesLogits) {
  const auto& model = dynamic_cast<const PairModel&>(*model_);
  const SearchOptions options{.ends_at_limit = false, .max_length = 8};
  const auto free = found({.as_transformers = true, .ends = {16}}, options)[0];
  for (const double penalty : {1.3, 3.0}) {
    const auto one = found({.as_transformers = true, .ends = {16}, .repetition_penalty = penalty}, options)[0];
    const auto by_hand = greedy_by_hand(model, penalty, one.ids.size());
    EXPECT_EQ(one.ids, by_hand);
    EXPECT_LE(one.log_probability, free.log_probability + 1e-4);  // the model's log probability, without the penalty
  }
}

TEST_F(Rules, ABeamPenalizesLogProbabilities) {
  // Every text of two tokens, by hand. The second token follows the start and the first.
  const auto& model = dynamic_cast<const PairModel&>(*model_);
  const auto source = random_sources(1, 5, 5, 7)[0];
  const GenerationRules rules{.as_transformers = true,
                              .start = 2,
                              .ends = {16},
                              .forced_last = -1,
                              .banned = {0, 1, 16},
                              .repetition_penalty = 1.7,
                              .renormalizes = true};
  const auto scores_after = [&](const std::vector<int64_t>& ids) {
    const auto decoding = model.start(tensor<int64_t>({source.begin(), source.end()}, {1, std::ssize(source)}), {});
    Tensor logits;
    for (const int64_t id : ids) logits = decoding->step(tensor<int64_t>({id}, {1, 1}));
    auto scores = log_softmax(logits).to_vector<double>();
    for (const int64_t id : std::set<int64_t>(ids.begin(), ids.end())) scores[static_cast<size_t>(id)] *= 1.7;
    for (const int32_t id : rules.banned) scores[static_cast<size_t>(id)] = -INFINITY;
    double sum = 0;
    for (const double score : scores) sum += std::exp(score);
    for (double& score : scores) score -= std::log(sum);
    return scores;
  };
  std::pair<double, std::vector<int32_t>> best{-INFINITY, {}};
  const auto first = scores_after({2});
  for (int32_t a = 0; a < 17; ++a) {
    if (first[static_cast<size_t>(a)] == -INFINITY) continue;
    const auto second = scores_after({2, a});
    for (int32_t b = 0; b < 17; ++b) {
      best = std::max(best, {first[static_cast<size_t>(a)] + second[static_cast<size_t>(b)], {a, b}});
    }
  }
  SearchOptions options{.beam = 17, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 2};
  const auto one = found(rules, options)[0];
  EXPECT_EQ(one.ids, best.second);
  EXPECT_NEAR(one.score * 2, best.first, 1e-4);
  EXPECT_LT(one.log_probability, one.score * 2);  // the model's log probability: banned tokens keep their probability
}

TEST_F(Rules, SamplesKeepThem) {
  const GenerationRules rules{.as_transformers = true, .ends = {3, 5, 6, 7, 8}, .forced_last = 3, .min_new = 4};
  SearchOptions options{.n_best = 20, .ends_at_limit = false, .sampling = SamplingOptions{.seed = 3}, .max_length = 7};
  for (const Hypothesis& one : found(rules, options)) {
    EXPECT_GE(one.ids.size(), 4u);
    EXPECT_LE(one.ids.size(), 6u);
    EXPECT_EQ(one.is_cut, one.ids.size() == 6);
  }
  options.max_length = 9;
  for (const Hypothesis& one : found({.as_transformers = true, .ends = {3}, .banned = {3}, .no_repeat = 1}, options)) {
    EXPECT_EQ(std::set<int32_t>(one.ids.begin(), one.ids.end()).size(), 9u);
    EXPECT_TRUE(one.is_cut);  // no end token is allowed
  }
}

TEST_F(Rules, AnEndForcedByTheLengthIsATruncation) {
  const GenerationRules rules{.as_transformers = true, .ends = {16}, .forced_last = 16, .banned = {16}};
  for (const int64_t beam : {1, 3}) {
    const auto one =
        found(rules, {.beam = beam, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 5})[0];
    EXPECT_EQ(one.ids.size(), 4u);
    EXPECT_TRUE(one.is_cut);
  }
}

TEST(RulesOfAFolder, AreDefaultsForUnsetOptions) {
  GenerationRules rules{.as_transformers = true, .beam = 5, .max_length = 20, .length_penalty = 2};
  EXPECT_EQ(search_by(rules).beam, 5);
  EXPECT_EQ(search_by(rules).length_penalty, 2);
  EXPECT_EQ(search_by(rules).max_length, 19);
  EXPECT_EQ(search_by(rules).stop, SearchStop::likely);
  EXPECT_EQ(search_by({}).beam, 1);
  EXPECT_EQ(with_rules({.max_length = 7}, rules).max_length, 7);
  rules.max_new = 4;
  EXPECT_EQ(search_by(rules).max_length, 4);
  rules.early_stopping = EarlyStopping::never;
  EXPECT_EQ(search_by(rules).stop, SearchStop::best);
  rules.early_stopping = EarlyStopping::eager;
  EXPECT_EQ(search_by(rules).stop, SearchStop::eager);
}

TEST_F(Rules, ASearchThatNeverStopsEarlyIsNotWorse) {
  const GenerationRules rules{.as_transformers = true, .ends = {3, 5}};
  SearchOptions options{.beam = 2, .stop = SearchStop::eager, .ends_at_limit = false, .max_length = 16};
  double before = -INFINITY;
  for (const SearchStop stop : {SearchStop::eager, SearchStop::likely, SearchStop::best}) {
    options.stop = stop;
    const double score = found(rules, options)[0].score;
    EXPECT_GE(score, before);
    before = score;
  }
}

TEST_F(Rules, NanIsAnError) {
  for (auto& [name, tensor] : model_->parameters()) {
    if (name == "embedding.weight") tensor.data<float>()[16 * 7] = NAN;
  }
  for (const int64_t beam : {1, 3}) {
    testing::expect_error<Error>([&] { found({}, {.beam = beam}); },
                                 "search: the model computed NaN: its weights are damaged");
  }
  testing::expect_error<Error>([&] { found({}, {.sampling = SamplingOptions{}}); },
                               "generate: the model computed NaN: its weights are damaged");
}

TEST_F(Rules, MustFitTheModel) {
  testing::expect_error<FormatError>([&] { found({.start = 1000}); },
                                     "the generation settings name token 1000, but the model has only 17 tokens");
}

TEST(Embed, TheBatchChangesNothing) {
  const ByteTokenizer tokenizer(12, 'a');
  const std::vector<std::string> texts{"abc", "", "abcabcabc", "b"};
  for (const char* architecture : {"transformer", "gpt", "encoder"}) {
    const auto model = tiny_model(architecture, tokenizer.size());
    const auto all = embed(*model, tokenizer, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto alone = embed(*model, tokenizer, std::span(&texts[i], 1));
      if (texts[i].empty() && architecture == std::string("gpt")) continue;  // an empty text gives zeros
      EXPECT_NEAR(cosine(all[i].vector, alone[0].vector), 1, 1e-5) << architecture << ' ' << i;
    }
    EXPECT_EQ(all[0].vector.size(), all[1].vector.size());
    EXPECT_TRUE(embed(*model, tokenizer, texts, {.sentence = {.longest = 4}})[2].is_cut);
  }
  testing::expect_error<Error>([&] { embed(*tiny_model("rnn", tokenizer.size()), tokenizer, texts); },
                               "embed: architecture rnn has no text embeddings");
}

}  // namespace
}  // namespace attend
