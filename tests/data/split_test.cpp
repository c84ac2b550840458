#include "attend/data/split.h"

#include <algorithm>
#include <set>

#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;

TEST(Split, EveryExampleIsOnOneSide) {
  for (const int64_t count : {2, 3, 50, 1000, 12345}) {
    const Split split = split_examples(count, {.seed = 7});
    std::set<int64_t> all(split.training.begin(), split.training.end());
    all.insert(split.validation.begin(), split.validation.end());
    EXPECT_EQ(static_cast<int64_t>(all.size()), count);
    EXPECT_EQ(static_cast<int64_t>(split.training.size() + split.validation.size()), count);
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_EQ(*all.rbegin(), count - 1);
    EXPECT_TRUE(std::ranges::is_sorted(split.training) && std::ranges::is_sorted(split.validation));
  }
}

TEST(Split, TheShareHasItsLimits) {
  EXPECT_EQ(split_examples(2).validation.size(), 1u);
  EXPECT_EQ(split_examples(10).validation.size(), 1u);
  EXPECT_EQ(split_examples(29000).validation.size(), 580u);
  EXPECT_EQ(split_examples(1000000).validation.size(), 2000u);
  EXPECT_EQ(split_examples(1000, {.validation = 0.5}).validation.size(), 500u);
  EXPECT_EQ(split_examples(3, {.validation = 0.99}).training.size(), 1u);
}

TEST(Split, TheSeedDecides) {
  const auto chosen = [](uint64_t seed) { return split_examples(5000, {.seed = seed}).validation; };
  EXPECT_EQ(chosen(1), chosen(1));
  EXPECT_NE(chosen(1), chosen(2));
  double mean = 0;
  for (const int64_t example : chosen(1)) mean += static_cast<double>(example) / 100;
  EXPECT_NEAR(mean, 2500, 600) << "spread over the whole corpus";
}

TEST(Split, RefusesInvalidOptions) {
  expect_error<ShapeError>([] { split_examples(1); }, "split: expected at least 2 examples, got 1");
  expect_error<ShapeError>([] { split_examples(9, {.validation = 1}); },
                           "split: expected a share between 0 and 1, got 1");
}

}  // namespace
}  // namespace attend
