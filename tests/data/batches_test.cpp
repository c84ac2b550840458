#include "attend/data/batches.h"

#include <algorithm>
#include <set>

#include "attend/base/random.h"
#include "data_testing.h"

namespace attend {
namespace {

using testing::CacheFile;
using testing::expect_error;
using Ids = std::vector<int32_t>;
using Longs = std::vector<int64_t>;
constexpr SpecialTokens kSpecial{.pad = 0, .unknown = 1, .begin = 2, .end = 3};

/// Pairs of random length; source and target are about equally long.
CacheFile random_pairs(int64_t count) {
  std::vector<std::vector<Ids>> examples;
  for (int64_t i = 0; i < count; ++i) {
    const auto random = philox(5, static_cast<uint64_t>(i), 0);
    const size_t source = random[0] % 40, target = source + random[1] % 7;
    examples.push_back({Ids(source, 4), Ids(target, 5)});
  }
  return CacheFile(examples);
}

int64_t longer_side(const TokenCache& cache, int64_t example) {
  return std::max(cache.length(example, 0), cache.length(example, 1)) + 1;
}

std::vector<Longs> lists(const Batches& batches) {
  std::vector<Longs> result;
  for (int64_t i = 0; i < batches.size(); ++i) result.emplace_back(batches[i].begin(), batches[i].end());
  return result;
}

TEST(BatchPlan, EveryExampleOnceWithinTheBudget) {
  const CacheFile file = random_pairs(2000);
  const TokenCache cache = file.open();
  const BatchPlan plan(cache, {.tokens = 512, .seed = 1});
  std::multiset<int64_t> seen;
  int64_t places = 0, real = 0;
  for (const Longs& batch : lists(plan.epoch(0))) {
    int64_t longest = 0;
    for (const int64_t example : batch) longest = std::max(longest, longer_side(cache, example));
    EXPECT_LE(longest * static_cast<int64_t>(batch.size()), 512);
    places += longest * static_cast<int64_t>(batch.size());
    for (const int64_t example : batch) real += longer_side(cache, example);
    seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 2000u);
  EXPECT_GT(static_cast<double>(real) / static_cast<double>(places), 0.95) << "little padding";
  EXPECT_LE(plan.batches(), 2 * places / 512) << "and full batches";
}

TEST(BatchPlan, AFunctionOfSeedAndEpoch) {
  const CacheFile file = random_pairs(500);
  const TokenCache cache = file.open();
  const auto epoch = [&](uint64_t seed, int64_t number) {
    return lists(BatchPlan(cache, {.tokens = 256, .seed = seed}).epoch(number));
  };
  EXPECT_EQ(epoch(1, 3), epoch(1, 3));
  EXPECT_NE(epoch(1, 3), epoch(1, 4));
  EXPECT_NE(epoch(1, 3), epoch(2, 3));
  EXPECT_EQ(epoch(1, 0).size(), epoch(1, 9).size());
  auto sorted = [](std::vector<Longs> batches) {
    for (Longs& batch : batches) std::ranges::sort(batch);
    std::ranges::sort(batches);
    return batches;
  };
  EXPECT_NE(sorted(epoch(1, 0)), sorted(epoch(1, 1))) << "batches are made anew, not only put in another order";
}

TEST(BatchPlan, WithoutShufflingTheShortestComeFirst) {
  const CacheFile file = random_pairs(100);
  const TokenCache cache = file.open();
  const BatchPlan plan(cache, {.tokens = 128, .shuffle = false});
  EXPECT_EQ(lists(plan.epoch(0)), lists(plan.epoch(1)));
  int64_t before = 0;
  for (const Longs& batch : lists(plan.epoch(0))) {
    for (const int64_t example : batch) {
      EXPECT_GE(longer_side(cache, example), before);
      before = longer_side(cache, example);
    }
  }
}

TEST(BatchPlan, ALabelHasNoLength) {
  const CacheFile file({{Ids(16, 9), Ids(1, 0)}, {Ids(4, 9), Ids(1, 1)}, {Ids(17, 9), Ids(1, 1)}});
  const TokenCache cache = file.open();
  const BatchPlan plan(cache, {.max_length = 16, .labelled = true});
  EXPECT_EQ(plan.examples(), 2);
  EXPECT_EQ(plan.left_out(), 1);
}

TEST(BatchPlan, LimitsOfExamplesAndLengths) {
  const CacheFile file(
      {{Ids(1, 9), Ids(2, 9)}, {Ids(30, 9), Ids(2, 9)}, {Ids(2, 9), Ids(9, 9)}, {Ids(1, 9), Ids(1, 9)}});
  const TokenCache cache = file.open();
  const auto plan = [&](const BatchOptions& options) { return lists(BatchPlan(cache, options).epoch(0)); };
  EXPECT_EQ(plan({.tokens = 1000, .sentences = 3, .shuffle = false}), (std::vector<Longs>{{3, 0, 2}, {1}}));
  EXPECT_EQ(plan({.tokens = 10, .shuffle = false}), (std::vector<Longs>{{3, 0}, {2}, {1}})) << "31 > 10: on its own";
  const BatchPlan limited(cache, {.max_length = 10, .shuffle = false});
  EXPECT_EQ(lists(limited.epoch(0)), (std::vector<Longs>{{3, 0, 2}}));
  EXPECT_EQ(limited.left_out(), 1);
  EXPECT_EQ(limited.examples(), 3);
  const Longs some{2, 0};
  EXPECT_EQ(lists(BatchPlan(cache, some, {.shuffle = false}).epoch(0)), (std::vector<Longs>{{0, 2}}));
}

TEST(BatchPlan, RefusesInvalidOptions) {
  const CacheFile file({{Ids(5, 9), Ids(5, 9)}});
  const TokenCache cache = file.open();
  expect_error<ShapeError>([&] { BatchPlan(cache, {.max_length = 5}); },
                           "batches: none of 1 examples is within max_length 5");
  expect_error<ShapeError>([&] { BatchPlan(cache, {.tokens = 0}); },
                           "batches: expected tokens ≥ 1, sentences ≥ 0, max_length ≥ 0, got 0, 0, 0");
  expect_error<ShapeError>([&] { BatchPlan(cache, BatchOptions{}).epoch(0)[1]; },
                           "batches: expected a batch from 0 to 0, got 1");
}

TEST(PairBatch, DecoderInputsAndLabels) {
  const CacheFile file({{{11, 12}, {21}}, {{}, {}}, {{13}, {22, 23, 24}}});
  const Longs chosen{2, 0, 1};
  const PairBatch batch = pair_batch(file.open(), chosen, kSpecial);
  EXPECT_EQ(batch.source.shape(), Shape({3, 3}));
  EXPECT_EQ(batch.source.to_vector<int64_t>(), (Longs{13, 3, 0, 11, 12, 3, 3, 0, 0}));
  EXPECT_EQ(batch.source_lengths.to_vector<int64_t>(), (Longs{2, 3, 1}));
  EXPECT_EQ(batch.target.shape(), Shape({3, 4}));
  EXPECT_EQ(batch.target.to_vector<int64_t>(), (Longs{2, 22, 23, 24, 2, 21, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(batch.labels.to_vector<int64_t>(), (Longs{22, 23, 24, 3, 21, 3, -100, -100, 3, -100, -100, -100}));
  EXPECT_EQ(batch.target_lengths.to_vector<int64_t>(), (Longs{4, 2, 1}));
  EXPECT_EQ(batch.source_tokens, 6);
  EXPECT_EQ(batch.target_tokens, 7);
  EXPECT_EQ(batch.source.dtype(), DType::i64);
  EXPECT_EQ(batch.source_lengths.shape(), Shape({3}));
}

/// BART puts <s> before both texts, and the decoder learns it as the first token.
TEST(PairBatch, ATokenBeforeBothTexts) {
  const CacheFile file({{{11, 12}, {21}}, {{13}, {22, 23, 24}}});
  const Longs chosen{0, 1};
  const PairBatch batch = pair_batch(file.open(), chosen, {.pad = 1, .begin = 2, .end = 2, .first = 7});
  EXPECT_EQ(batch.source.to_vector<int64_t>(), (Longs{7, 11, 12, 2, 7, 13, 2, 1}));
  EXPECT_EQ(batch.source_lengths.to_vector<int64_t>(), (Longs{4, 3}));
  EXPECT_EQ(batch.target.to_vector<int64_t>(), (Longs{2, 7, 21, 1, 1, 2, 7, 22, 23, 24}));
  EXPECT_EQ(batch.labels.to_vector<int64_t>(), (Longs{7, 21, 2, -100, -100, 7, 22, 23, 24, 2}));
  EXPECT_EQ(batch.target_lengths.to_vector<int64_t>(), (Longs{3, 5}));
}

TEST(Batches, RowsAreRoundedUpInSteps) {
  const auto rounded = [](std::initializer_list<int64_t> rows) {
    std::vector<int64_t> result;
    for (const int64_t count : rows) result.push_back(rounded_rows(count));
    return result;
  };
  EXPECT_EQ(rounded({0, 1, 7, 15, 16, 17, 33, 100, 129, 1000}),
            (std::vector<int64_t>{0, 1, 7, 15, 16, 18, 36, 104, 144, 1024}));
}

/// The same tokens and labels, with more padding.
TEST(PairBatch, PaddedToFewShapes) {
  const CacheFile file({{{11, 12, 13}, {14, 15}}, {{16}, {17, 18, 19}}});
  Longs chosen;
  for (int64_t i = 0; i < 17; ++i) chosen.push_back(i % 2);
  const PairBatch plain = pair_batch(file.open(), chosen, kSpecial);
  const PairBatch batch =
      pair_batch(file.open(), chosen, kSpecial, {.length_multiple = 8, .most_length = 7, .rounds_rows = true});
  EXPECT_EQ(plain.source.shape(), (Shape{17, 4}));
  EXPECT_EQ(batch.source.shape(), (Shape{18, 7}));
  EXPECT_EQ(batch.labels.shape(), (Shape{18, 7}));
  EXPECT_EQ(batch.source_lengths.to_vector<int64_t>()[17], 1);
  EXPECT_EQ(batch.target_tokens, plain.target_tokens);
  for (const auto& [few, many] : {std::pair{plain.source, batch.source}, std::pair{plain.labels, batch.labels}}) {
    const auto a = few.to_vector<int64_t>(), b = many.to_vector<int64_t>();
    for (size_t row = 0; row < 18; ++row) {
      for (size_t i = 0; i < 7; ++i) {
        const int64_t padding = b[17 * 7];
        EXPECT_EQ(b[row * 7 + i], row < 17 && i < 4 ? a[row * 4 + i] : padding);
      }
    }
  }
  EXPECT_EQ(batch.labels.to_vector<int64_t>()[17 * 7], -100);
}

TEST(PairBatch, VocabulariesWithoutSomeSpecialTokens) {
  const CacheFile file({{{11}, {21, 22}}});
  const Longs chosen{0};
  const PairBatch batch = pair_batch(file.open(), chosen, {.end = 9});
  EXPECT_EQ(batch.target.to_vector<int64_t>(), (Longs{9, 21, 22})) << "the end mark begins too";
  expect_error<ShapeError>([&] { pair_batch(file.open(), chosen, {.begin = 1}); },
                           "pair_batch: the vocabulary has no end token");
  const CacheFile single(std::vector<std::vector<Ids>>{{{1}}});
  expect_error<ShapeError>([&] { pair_batch(single.open(), chosen, kSpecial); },
                           "pair_batch: expected a cache of 2 columns, got 1");
  expect_error<ShapeError>([&] { pair_batch(file.open(), {}, kSpecial); }, "pair_batch: expected at least one example");
}

TEST(ClassBatch, TextsAndTheirClasses) {
  const CacheFile file({{{11, 12, 13}, {1}}, {{14}, {0}}, {{15}, {}}});
  const Longs chosen{1, 0}, wrong{2};
  const ClassBatch batch = class_batch(file.open(), chosen, {.pad = 7});
  EXPECT_EQ(batch.ids.shape(), Shape({2, 3}));
  EXPECT_EQ(batch.ids.to_vector<int64_t>(), (Longs{14, 7, 7, 11, 12, 13}));
  EXPECT_EQ(batch.lengths.to_vector<int64_t>(), (Longs{1, 3}));
  EXPECT_EQ(batch.labels.to_vector<int64_t>(), (Longs{0, 1}));
  EXPECT_EQ(batch.tokens, 4);
  expect_error<ShapeError>([&] { class_batch(file.open(), wrong, kSpecial); },
                           "class_batch: example 2 has 0 labels, expected 1");
}

}  // namespace
}  // namespace attend
