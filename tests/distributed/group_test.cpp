#include "distributed/group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "attend/base/random.h"
#include "distributed/thread_group.h"
#include "distributed/tree_sum.h"

namespace attend::distributed {
namespace {

TEST(World, IsASingleProcessWithoutALauncher) {
  EXPECT_EQ(launched_size(), 1);
  join();
  EXPECT_EQ(world().size(), 1);
  EXPECT_EQ(world().rank(), 0);
  EXPECT_EQ(all_gather(world(), std::vector<int>{7, 8}), (std::vector<int>{7, 8}));
  EXPECT_EQ(broadcast(world(), "text"), "text");
  EXPECT_EQ(unpacked(packed({"a b", "", "\n1 2"})), (std::vector<std::string>{"a b", "", "\n1 2"}));
  leave();
}

TEST(Group, RanksExchangeValuesAndTexts) {
  run_ranks(3, [](Group& group) {
    const int rank = group.rank();
    EXPECT_EQ(&world(), &group);
    EXPECT_EQ(all_gather(group, std::vector<int>{rank, 10 * rank}), (std::vector<int>{0, 0, 1, 10, 2, 20}));
    EXPECT_EQ(all_gather(group, std::string(static_cast<size_t>(rank), 'x')),
              (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_EQ(broadcast(group, std::to_string(rank), 2), "2");
    const std::vector<std::string> mine(static_cast<size_t>(rank), std::to_string(rank));
    EXPECT_EQ(all_gather(group, mine), (std::vector<std::string>{"1", "2", "2"}));
    const auto part = group.split(rank == 1 ? 1 : 0);
    EXPECT_EQ(part->size(), rank == 1 ? 1 : 2);
    EXPECT_EQ(part->rank(), rank == 2 ? 1 : 0);
  });
}

std::vector<float> leaves(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto random = philox(5, static_cast<uint64_t>(i), 0);
    values.push_back(std::ldexp(uniform_from_bits(random[0]) - 0.5f, static_cast<int>(random[1] % 20)));
  }
  return values;
}

const auto kAdd = [](float& left, float right) { left += right; };

float sum_alone(const std::vector<float>& values) {
  TreeSum<float> sum;
  for (int64_t i = 0; i < std::ssize(values); ++i) sum.push({i, 1, values[static_cast<size_t>(i)]}, kAdd);
  return sum.total(kAdd);
}

TEST(TreeSum, AddsInAFixedTree) {
  EXPECT_EQ(sum_alone({1e8f, 1, -1e8f, 1}), (1e8f + 1) + (-1e8f + 1));
  const std::vector<float> v = leaves(7);
  EXPECT_EQ(sum_alone(v), ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + v[6]));
  TreeSum<float> sum;
  for (int64_t i = 0; i < 1024; ++i) {
    sum.push({i, 1, 1}, kAdd);
    EXPECT_LE(sum.parts().size(), 11u);
  }
}

TEST(TreeSum, HasTheSameBitsForAnyDivision) {
  for (const int64_t count : {1, 2, 3, 6, 8, 12, 24, 60, 64, 97}) {
    const std::vector<float> values = leaves(count);
    const float expected = sum_alone(values);
    for (int64_t ranks = 1; ranks <= count; ++ranks) {
      if (count % ranks != 0) continue;
      TreeSum<float> all;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        TreeSum<float> mine;
        const int64_t begin = rank * count / ranks, end = (rank + 1) * count / ranks;
        for (int64_t i = begin; i < end; ++i) mine.push({i, 1, values[static_cast<size_t>(i)]}, kAdd);
        std::vector<std::pair<int64_t, int64_t>> parts;
        for (auto& part : mine.parts()) {
          parts.emplace_back(part.first, part.size);
          all.push(part, kAdd);
        }
        EXPECT_EQ(parts, tree_parts(begin, end));
      }
      EXPECT_EQ(all.total(kAdd), expected) << count << " leaves, " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace attend::distributed
