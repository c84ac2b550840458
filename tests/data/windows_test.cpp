#include "attend/data/windows.h"

#include <numeric>
#include <set>

#include "data_testing.h"

namespace attend {
namespace {

using testing::CacheFile;
using testing::expect_error;
using Ids = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

/// The ids 0 … count-1, split into examples of 0, 1, 2, … tokens.
CacheFile counting(int32_t count) {
  std::vector<std::vector<Ids>> examples;
  int32_t next = 0;
  for (int32_t length = 0; next < count; ++length) {
    Ids ids(static_cast<size_t>(std::min(length, count - next)));
    std::iota(ids.begin(), ids.end(), next);
    next += static_cast<int32_t>(ids.size());
    examples.push_back({ids});
  }
  return CacheFile(examples);
}

TEST(TextWindows, RandomWindowsOfOneStream) {
  const CacheFile file = counting(500);
  const TextWindows windows(file.open(), {.batch = 4, .context = 16, .seed = 3});
  EXPECT_EQ(windows.tokens(), 500);
  std::set<int64_t> places;
  for (int64_t step = 0; step < 400; ++step) {
    const TextBatch batch = windows.window(step);
    ASSERT_EQ(batch.ids.shape(), Shape({4, 16}));
    const Longs ids = batch.ids.to_vector<int64_t>(), labels = batch.labels.to_vector<int64_t>();
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(labels[i], ids[i] + 1);
      const bool first = i % 16 == 0;
      ASSERT_TRUE(first || ids[i] == ids[i - 1] + 1);
      if (first) places.insert(ids[i]);
    }
    EXPECT_EQ(batch.tokens, 64);
  }
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), 500 - 17) << "the last window ends with the text";
  EXPECT_GT(places.size(), 450u);
}

TEST(TextWindows, AFunctionOfSeedAndStep) {
  const CacheFile file = counting(1000);
  const auto ids = [&](uint64_t seed, int64_t step) {
    return TextWindows(file.open(), {.seed = seed}).window(step).ids.to_vector<int64_t>();
  };
  EXPECT_EQ(ids(1, 5), ids(1, 5));
  EXPECT_NE(ids(1, 5), ids(1, 6));
  EXPECT_NE(ids(1, 5), ids(2, 5));
}

TEST(TextWindows, ASeparatorEndsEachExample) {
  const CacheFile file({{{1, 2}}, {{}}, {{3}}});
  const TextWindows windows(file.open(), {.batch = 1, .context = 5, .separator = {9}});
  EXPECT_EQ(windows.tokens(), 6);
  const TextBatch batch = windows.window(0);  // only one position fits
  EXPECT_EQ(batch.ids.to_vector<int64_t>(), (Longs{1, 2, 9, 9, 3}));
  EXPECT_EQ(batch.labels.to_vector<int64_t>(), (Longs{2, 9, 9, 3, 9}));
}

TEST(TextWindows, AWindowMayBeginInsideASeparatorOfTwoTokens) {
  const CacheFile file({{{1, 2}}, {{}}, {{3}}});
  const TextWindows windows(file.open(), {.batch = 1, .context = 2, .separator = {9, 8}});
  EXPECT_EQ(windows.tokens(), 9);
  Longs labels;
  for (int64_t i = 0; i < windows.blocks(); ++i) {
    for (const int64_t label : windows.block(i).labels.to_vector<int64_t>()) labels.push_back(label);
  }
  EXPECT_EQ(labels, (Longs{2, 9, 8, 9, 8, 3, 9, 8}));
}

TEST(TextWindows, BlocksCoverTheStreamOnce) {
  const CacheFile file = counting(100);
  for (const int64_t context : {1, 7, 33, 98, 99, 100, 300}) {
    const TextWindows windows(file.open(), {.batch = 3, .context = context});
    Longs labels;
    int64_t tokens = 0;
    for (int64_t i = 0; i < windows.blocks(); ++i) {
      const TextBatch batch = windows.block(i);
      const Longs ids = batch.ids.to_vector<int64_t>(), answers = batch.labels.to_vector<int64_t>();
      for (size_t j = 0; j < ids.size(); ++j) {
        if (answers[j] == -100) continue;
        EXPECT_EQ(answers[j], ids[j] + 1);
        labels.push_back(answers[j]);
      }
      tokens += batch.tokens;
    }
    Longs expected(99);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(labels, expected) << context;
    EXPECT_EQ(tokens, 99);
  }
}

TEST(TextWindows, PartsOfTheStream) {
  const CacheFile file = counting(100);
  const TextWindows training(file.open(), {.batch = 2, .context = 4, .to = 0.9}),
      validation(file.open(), {.batch = 100, .context = 4, .from = 0.9});
  EXPECT_EQ(training.tokens(), 90);
  EXPECT_EQ(validation.tokens(), 10);
  EXPECT_EQ(validation.block(0).ids.to_vector<int64_t>(), (Longs{90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 0, 0}));
  for (int64_t step = 0; step < 200; ++step) {
    for (const int64_t label : training.window(step).labels.to_vector<int64_t>()) EXPECT_LT(label, 90);
    for (const int64_t id : validation.window(step).ids.to_vector<int64_t>()) EXPECT_GE(id, 90);
  }
}

TEST(TextWindows, RefusesInvalidOptions) {
  const CacheFile file = counting(10);
  const auto windows = [&](const WindowOptions& options) { return TextWindows(file.open(), options); };
  expect_error<ShapeError>([&] { windows({.context = 10}).window(0); },
                           "windows: expected more tokens than the context of 10, got 10");
  EXPECT_EQ(windows({.batch = 1, .context = 9}).window(0).labels.to_vector<int64_t>().back(), 9);
  expect_error<ShapeError>([&] { windows({.context = 0}); },
                           "windows: expected batch ≥ 1 and context ≥ 1, got 12 and 0");
  expect_error<ShapeError>([&] { windows({.from = 0.9}); }, "windows: expected at least 2 tokens of text, got 1");
  expect_error<ShapeError>([&] { windows({.from = 0.5, .to = 0.5}); },
                           "windows: expected 0 ≤ from < to ≤ 1, got 0.5 and 0.5");
  expect_error<ShapeError>([&] { windows({}).block(1); }, "windows: expected a block from 0 to 0, got 1");
}

}  // namespace
}  // namespace attend
