#include "generate/top.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "attend/base/random.h"
#include "attend/tensor/creation.h"
#include "generate/byte_tokenizer.h"

namespace attend {
namespace {

std::vector<float> values(size_t count, uint64_t seed, uint32_t distinct) {
  std::vector<float> result;
  for (size_t i = 0; i < count; ++i) result.push_back(static_cast<float>(philox(seed, i, 0)[0] % distinct) - 7);
  return result;
}

std::vector<int32_t> sorted_ids(const std::vector<float>& values, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) ids.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(
      ids, [&](int32_t a, int32_t b) { return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)]; });
  ids.resize(std::min(count, ids.size()));
  return ids;
}

std::vector<int32_t> top_ids(const std::vector<float>& values, int64_t count) {
  std::vector<Continuation> top;
  top_values(values, count, top);
  std::vector<int32_t> ids;
  for (const Continuation& c : top) ids.push_back(c.id);
  return ids;
}

TEST(Top, EqualsAPartialSort) {
  for (const size_t size : {0u, 1u, 31u, 32u, 33u, 257u, 5000u}) {
    for (const uint32_t distinct : {2u, 50u, 4000000000u}) {  // with many ties, and without
      const auto all = values(size, size, distinct);
      for (const size_t count : {1u, 2u, 10u, 64u, 6000u}) {
        EXPECT_EQ(top_ids(all, static_cast<int64_t>(count)), sorted_ids(all, count)) << size << ' ' << distinct;
      }
    }
  }
}

TEST(Top, NanIsNeverChosen) {
  auto all = values(100, 3, 1000);
  for (size_t i = 0; i < all.size(); i += 3) all[i] = NAN;
  all[4] = INFINITY;
  all[5] = -INFINITY;
  EXPECT_EQ(top_ids(all, 200), sorted_ids(all, 200));
  EXPECT_EQ(top_ids(std::vector<float>(64, NAN), 3), std::vector<int32_t>{});
}

TEST(Top, LeavesOutBannedTokens) {
  const testing::ByteTokenizer tokenizer(4);
  const Vocabulary vocabulary = Vocabulary::of(tokenizer, 11);  // two rows of the matrix have no token
  EXPECT_EQ(vocabulary.banned, (std::vector<int32_t>{0, 2, 4, 1}));
  const auto allowed = [&](std::vector<float> all, int64_t count) {
    all.resize(static_cast<size_t>(vocabulary.size));
    std::vector<Continuation> result;
    top_allowed(all, count, vocabulary, result);
    return result;
  };
  const std::vector<float> falling{9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 11}, mixed{0, 0, 0, 1, 0, 1, 2, 3, 2, 9, 9};
  const std::vector top{allowed(falling, 3), allowed(mixed, 3)};
  ASSERT_EQ(top[0].size(), 3u);
  EXPECT_EQ(top[0][0].id, 3);
  EXPECT_EQ(top[0][0].value, 6);
  EXPECT_EQ(top[0][1].id, 5);
  EXPECT_EQ(top[0][2].id, 6);
  EXPECT_EQ(top[1][0].id, 7);
  EXPECT_EQ(top[1][1].id, 6);
  EXPECT_EQ(top[1][2].id, 8);
  EXPECT_EQ(allowed(falling, 30).size(), 5u);
  EXPECT_THROW(Vocabulary::of(tokenizer, 8), FormatError);
}

}  // namespace
}  // namespace attend
