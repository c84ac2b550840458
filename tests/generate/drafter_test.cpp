#include "generate/drafter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attend/base/random.h"

namespace attend {
namespace {

using Ids = std::vector<int32_t>;

const Vocabulary kVocabulary{.size = 100, .banned = {1}, .begin = 2, .ends = {3}};

Ids guessed(const Drafter& drafter, int64_t most = 8) { return drafter.guess(most, kVocabulary).ids; }

TEST(Drafter, RepeatsWhatFollowedTheLastTokens) {
  Drafter drafter(Ids{10, 11, 12, 13, 14, 20});
  EXPECT_EQ(guessed(drafter), Ids{}) << "20 is new";
  drafter.push(11);
  EXPECT_EQ(guessed(drafter, 3), (Ids{12, 13, 14}));
  EXPECT_EQ(guessed(drafter), (Ids{12, 13, 14, 20, 11, 12, 13, 14})) << "the guess repeats itself";
  EXPECT_EQ(guessed(drafter, 0), Ids{});
  EXPECT_EQ(guessed(drafter, -1), Ids{});
  drafter.push(30);
  EXPECT_EQ(guessed(drafter), Ids{});
  EXPECT_EQ(guessed(Drafter(Ids{})), Ids{});
}

TEST(Drafter, PrefersLongOccurrencesThenNewOnes) {
  Drafter drafter(Ids{7, 8, 9, 10, 50, 8, 9, 11, 51, 9, 12, 52});
  drafter.push(9);
  EXPECT_EQ(guessed(drafter, 1), (Ids{12}));
  Drafter longer(Ids{7, 8, 9, 10, 50, 8, 9, 11, 51, 9, 12, 52, 8});
  longer.push(9);
  EXPECT_EQ(guessed(longer, 1), (Ids{11}));
  Drafter longest(Ids{7, 8, 9, 10, 50, 8, 9, 11, 51, 9, 12, 52, 7, 8});
  longest.push(9);
  EXPECT_EQ(guessed(longest, 1), (Ids{10}));
}

TEST(Drafter, EndsBeforeTokensThatCannotFollow) {
  for (const int32_t id : {1, 3, 100, -1}) {
    Drafter drafter(Ids{10, 11, 12, id, 13, 20});
    drafter.push(10);
    EXPECT_EQ(guessed(drafter), (Ids{11, 12})) << id;
  }
}

TEST(Drafter, ChancesFollowTheText) {
  Drafter drafter(Ids{10, 11, 12, 13});
  for (int i = 0; i < 400; ++i) drafter.push(10 + i % 4);
  const Draft cycle = drafter.guess(8, kVocabulary);
  ASSERT_EQ(cycle.ids.size(), 8U);
  EXPECT_EQ(cycle.ids[0], 10);
  EXPECT_GT(cycle.chances.back(), 0.99);
  for (size_t i = 1; i < cycle.chances.size(); ++i) EXPECT_LE(cycle.chances[i], cycle.chances[i - 1]);
  // After 5 comes another token each time.
  for (int i = 0; i < 40; ++i) drafter.push(i % 2 == 0 ? 5 : 20 + i);
  drafter.push(5);
  EXPECT_LT(drafter.guess(1, kVocabulary).chances.at(0), 0.1);
}

Ids random_text(size_t length, uint32_t words, uint64_t seed) {
  Ids text;
  for (size_t i = 0; i < length; ++i) text.push_back(4 + static_cast<int32_t>(philox(seed, i, 0)[0] % words));
  return text;
}

TEST(Drafter, EveryGuessHasFollowedTheLastToken) {
  for (const uint32_t words : {1U, 2U, 7U, 50U, 90U}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Ids text = random_text(600, words, seed);
      Drafter drafter({text.data(), 100});
      for (size_t i = 100; i < text.size(); ++i) {
        drafter.push(text[i]);
        const Ids next = guessed(drafter, 5);
        const auto last = text.begin() + static_cast<ptrdiff_t>(i);
        const bool is_new = std::find(text.begin(), last, *last) == last;
        if (is_new) {
          ASSERT_TRUE(next.empty());
        }
        if (next.empty()) continue;  // a few places are lost to newer ones
        ASSERT_EQ(next.size(), 5U);
        const Ids pair{*last, next[0]};
        ASSERT_NE(std::search(text.begin(), last + 1, pair.begin(), pair.end()), last + 1);
      }
    }
  }
}

TEST(Drafter, ALongTextIsFound) {
  const Ids text = random_text(20000, 60000, 1);
  Drafter drafter(text);
  const Vocabulary vocabulary{.size = 1 << 16, .banned = {}};
  int64_t found = 0;
  for (size_t i = 0; i < 1000; ++i) {
    drafter.push(text[i]);
    if (i > 3 && drafter.guess(1, vocabulary).ids == Ids{text[i + 1]}) ++found;
  }
  EXPECT_GT(found, 900);
}

Draft draft(std::vector<double> chances) { return {.ids = Ids(chances.size(), 5), .chances = std::move(chances)}; }

std::vector<size_t> shortened(std::vector<Draft> drafts, int64_t tokens, double cost) {
  shorten_drafts(drafts, tokens, StepCost(cost));
  std::vector<size_t> lengths;
  for (const Draft& one : drafts) lengths.push_back(one.ids.size());
  return lengths;
}

TEST(ShortenDrafts, KeepsTokensThatPay) {
  using Lengths = std::vector<size_t>;
  const Draft sure = draft({1, 1, 1, 1}), unsure = draft({0.3, 0.1, 0.03});
  EXPECT_EQ(shortened({sure}, 1, 0.5), Lengths{4});
  EXPECT_EQ(shortened({sure}, 1, 1), Lengths{0}) << "as slow as a step of its own";
  EXPECT_EQ(shortened({unsure}, 1, 0.5), Lengths{0});
  EXPECT_EQ(shortened({unsure}, 1, 0.2), Lengths{1});  // 1.3 / 1.2 > 1.4 / 1.4
  EXPECT_EQ(shortened({unsure}, 1, 0), Lengths{3});
  EXPECT_EQ(shortened({unsure, sure}, 2, 0.4), (Lengths{0, 4}));
  EXPECT_EQ(shortened({sure, sure}, 13, 0), (Lengths{3, 0})) << "at most 16 tokens in a step";
  EXPECT_EQ(shortened({sure, sure}, 16, 0), (Lengths{0, 0}));
  EXPECT_EQ(shortened({sure, sure}, 40, 0), (Lengths{0, 0}));
  EXPECT_EQ(shortened({}, 1, 0), Lengths{});
}

TEST(StepCost, FollowsTheTimeOfEarlierSteps) {
  StepCost cost;
  EXPECT_EQ(cost.of(1), 1);
  EXPECT_LT(cost.of(9), 2);
  // Steps of up to four tokens take 10 ms, of more tokens 30 ms.
  for (int i = 0; i < 40; ++i) {
    for (const int64_t tokens : {1, 4, 5, 9}) cost.add(tokens, tokens > 4 ? 0.03 : 0.01);
  }
  EXPECT_EQ(cost.of(1), 1);
  EXPECT_LT(cost.of(4), 1.3);
  EXPECT_GT(cost.of(5), 2.2);
  EXPECT_GT(cost.of(9), 2.6);
  // One step of 10 s.
  cost.add(4, 10);
  EXPECT_LT(cost.of(4), 1.6);
  // Numbers of tokens that did not occur lie on a line, and forgotten ones return to it.
  EXPECT_GT(cost.of(16), cost.of(2));
  for (int i = 0; i < 3000; ++i) cost.add(4, 0.01);
  EXPECT_LT(cost.of(9), 1.3);
  // The machine becomes slower.
  for (int i = 0; i < 100; ++i) cost.add(1, 0.02), cost.add(4, 0.02);
  EXPECT_LT(cost.of(4), 1.3);
  cost.add(17, 1);  // not counted
  EXPECT_EQ(StepCost(0.25).of(5), 2);
}

}  // namespace
}  // namespace attend
