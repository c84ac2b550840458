// The effect of each generation rule on the scores of the next token.
#include "generate/score_rules.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend {
namespace {

constexpr float kNever = -INFINITY;
using Scores = std::vector<float>;
using Ids = std::vector<int32_t>;

class ScoresOf : public ::testing::Test {
 protected:
  /// The scores of six tokens after the start token 0 and `written`.
  Scores apply(const GenerationRules& rules, const Ids& written) const {
    const Ids before{0};
    return apply(rules, before, written);
  }
  Scores apply(const GenerationRules& rules, const Ids& before, const Ids& written) const {
    EXPECT_TRUE(ScoreRules::are_needed(rules));
    Scores scores{-1, 2, -3, 4, 5, 0};
    ScoreRules(rules, vocabulary_, {.before = before, .source = source_, .last = 9}).apply(scores, written);
    return scores;
  }

  Vocabulary vocabulary_{.size = 6, .banned = {}, .begin = 0, .ends = {5}};
  Ids source_{2, 3, 4, 5};
};

TEST_F(ScoresOf, RepeatedTokensArePenalizedOnce) {
  EXPECT_EQ(apply({.repetition_penalty = 2}, {2, 3, 3, 2}), (Scores{-2, 2, -6, 2, 5, 0}));  // and the start
  EXPECT_EQ(apply({.repetition_penalty = 0.5}, {1}), (Scores{-0.5F, 4, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.repetition_penalty = 2}, {7}), (Scores{-2, 2, -3, 4, 5, 0}));            // no word of the tokenizer
  EXPECT_EQ(apply({.repetition_penalty = 2}, {4, 1}, {}), (Scores{-1, 1, -3, 4, 2.5F, 0}));  // a prompt
}

TEST_F(ScoresOf, NoNGramIsRepeated) {
  EXPECT_EQ(apply({.no_repeat = 1}, {3}), (Scores{kNever, 2, -3, kNever, 5, 0}));
  EXPECT_EQ(apply({.no_repeat = 2}, {1, 3, 1, 4, 1}), (Scores{-1, 2, -3, kNever, kNever, 0}));
  EXPECT_EQ(apply({.no_repeat = 3}, {1, 0, 1}), (Scores{kNever, 2, -3, 4, 5, 0}));  // 0 1 0 1: not 0 1 0 again
  EXPECT_EQ(apply({.no_repeat = 3}, {1, 3, 1}), (Scores{-1, 2, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.no_repeat = 9}, {1, 1}), (Scores{-1, 2, -3, 4, 5, 0}));
}

TEST_F(ScoresOf, NoNGramIsCopiedFromTheSource) {
  EXPECT_EQ(apply({.no_repeat_source = 1}, {}), (Scores{-1, 2, kNever, kNever, kNever, kNever}));
  EXPECT_EQ(apply({.no_repeat_source = 2}, {3}), (Scores{-1, 2, -3, 4, kNever, 0}));
  EXPECT_EQ(apply({.no_repeat_source = 3}, {3, 4}), (Scores{-1, 2, -3, 4, 5, kNever}));
  EXPECT_EQ(apply({.no_repeat_source = 3}, {4, 3}), (Scores{-1, 2, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.no_repeat_source = 4}, {3}), (Scores{-1, 2, -3, 4, 5, 0}));
}

TEST_F(ScoresOf, BannedSequencesAndBannedFirstTokens) {
  const GenerationRules runs{.banned_runs = {{1, 2, 3}, {4, 4}}};
  EXPECT_EQ(apply(runs, {1, 2}), (Scores{-1, 2, -3, kNever, 5, 0}));
  EXPECT_EQ(apply(runs, {2, 4}), (Scores{-1, 2, -3, 4, kNever, 0}));
  EXPECT_EQ(apply(runs, {2}), (Scores{-1, 2, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.banned_runs = {{0, 4}}}, {}), (Scores{-1, 2, -3, 4, 5, 0}));  // the text so far is too short
  EXPECT_EQ(apply({.banned_first = {1, 5}}, {}), (Scores{-1, kNever, -3, 4, 5, kNever}));
  EXPECT_EQ(apply({.banned_first = {1, 5}}, {2}), (Scores{-1, 2, -3, 4, 5, 0}));
  const GenerationRules behind{.forced_first = 2, .banned_first = {1}};
  EXPECT_EQ(apply(behind, {2}), (Scores{-1, kNever, -3, 4, 5, 0}));
  EXPECT_EQ(apply(behind, {0, 4}, {}), (Scores{-1, kNever, -3, 4, 5, 0}));  // after a prompt nothing is forced
}

TEST_F(ScoresOf, NoEndBeforeTheMinimumLength) {
  EXPECT_EQ(apply({.min_length = 3}, {1}), (Scores{-1, 2, -3, 4, 5, kNever}));
  EXPECT_EQ(apply({.min_length = 3}, {1, 1}), (Scores{-1, 2, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.min_length = 3}, {1, 1, 1}, {}), (Scores{-1, 2, -3, 4, 5, 0}));
  EXPECT_EQ(apply({.min_new = 3}, {1, 1}), (Scores{-1, 2, -3, 4, 5, kNever}));
  EXPECT_EQ(apply({.min_length = 99, .min_new = 2}, {1, 1}), (Scores{-1, 2, -3, 4, 5, 0}));
}

TEST_F(ScoresOf, RenormalizedScoresAddUpToOne) {
  vocabulary_.banned = {4};
  const Scores scores = apply({.repetition_penalty = 2, .renormalizes = true}, {3});
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score));
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(scores[4], kNever);
  EXPECT_NEAR(scores[3] - scores[1], 0, 1e-6);  // 4 / 2 and 2: penalties come first
}

TEST_F(ScoresOf, ForcedTokens) {
  const Ids before{0}, prompt{0, 1};
  const GenerationRules rules{.forced_first = 3, .forced_last = 5};
  const ScoreRules one(rules, vocabulary_, {.before = before, .source = source_, .last = 4});
  EXPECT_EQ(one.forced(0), 3);
  EXPECT_EQ(one.forced(1), -1);
  EXPECT_EQ(one.forced(4), 5);
  EXPECT_TRUE(one.is_forced_last(4));
  EXPECT_FALSE(one.is_forced_last(3));
  EXPECT_EQ(ScoreRules(rules, vocabulary_, {.before = prompt, .source = prompt, .last = 4}).forced(0), -1);
  EXPECT_FALSE(ScoreRules::are_needed(rules));
}

}  // namespace
}  // namespace attend
