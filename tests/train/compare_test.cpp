// Length buckets, and the comparison report made from models' translations.
#include "attend/train/compare.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "testing/gradients.h"

namespace attend {
namespace {

using Numbers = std::vector<int64_t>;

TEST(LengthBuckets, AreAboutEqualInSizeAndNeverSplitALength) {
  const Numbers lengths{5, 1, 9, 2, 8, 3, 7, 4, 6};
  const auto thirds = length_buckets(lengths, 3);
  ASSERT_EQ(thirds.size(), 3u);
  EXPECT_EQ(thirds[0].members, (Numbers{1, 3, 5}));
  EXPECT_EQ(thirds[1].members, (Numbers{0, 7, 8}));
  EXPECT_EQ(thirds[2].members, (Numbers{2, 4, 6}));
  EXPECT_EQ(thirds[2].shortest, 7);
  EXPECT_EQ(thirds[2].longest, 9);
  EXPECT_EQ(thirds[2].mean, 8);

  // The middle falls among the sentences of length 4, so the cut moves to the nearer end of that group.
  const auto halves = length_buckets(Numbers{4, 4, 4, 1, 4, 2, 9, 9, 9, 9}, 2);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0].members, (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(halves[1].members, (Numbers{6, 7, 8, 9}));
}

TEST(LengthBuckets, AreAtMostTheNumberOfDistinctLengths) {
  EXPECT_EQ(length_buckets(Numbers{3, 3, 3}, 6).size(), 1u);
  EXPECT_EQ(length_buckets(Numbers{3, 3, 7}, 6).size(), 2u);
  EXPECT_EQ(length_buckets(Numbers{3}, 3).size(), 1u);
  EXPECT_TRUE(length_buckets(Numbers{}, 3).empty());
  testing::expect_error<ShapeError>(
      [] {
        length_buckets(Numbers{1, 2}, 0);
      },
      "length_buckets: expected at least one bucket, got 0");
}

TEST(LengthBuckets, ContainEverySentenceOnce) {
  Numbers lengths;
  for (int64_t i = 0; i < 500; ++i) lengths.push_back(1 + (i * i * 7 + i) % 23);
  for (const int64_t count : {1, 2, 5, 6, 40}) {
    Numbers all;
    int64_t longest = 0;
    for (const LengthBucket& bucket : length_buckets(lengths, count)) {
      EXPECT_GT(bucket.shortest, longest);
      longest = bucket.longest;
      for (const int64_t member : bucket.members) {
        const int64_t length = lengths[static_cast<size_t>(member)];
        EXPECT_TRUE(length >= bucket.shortest && length <= bucket.longest);
        all.push_back(member);
      }
    }
    std::ranges::sort(all);
    Numbers expected(lengths.size());
    std::iota(expected.begin(), expected.end(), int64_t{0});
    EXPECT_EQ(all, expected) << count;
  }
}

Comparison small_comparison() {
  return {.buckets = length_buckets(Numbers{2, 3, 8, 9}, 2),
          .thirds = length_buckets(Numbers{2, 3, 8, 9}, 3),
          .models = {{.architecture = "rnn", .bleu = {40, 10}, .thirds = {41, 20, 9}, .bleu_all = 25},
                     {.architecture = "transformer", .bleu = {42, 39}, .thirds = {43, 41, 38}, .bleu_all = 40}},
          .sentences = 4,
          .signature = "nrefs:1"};
}

TEST(ComparisonReport, ChartHasALineForEachModel) {
  const std::string svg = comparison_chart(small_comparison());
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_NE(svg.find("<title>rnn: 8.5, 10</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>transformer: 2.5, 42</title>"), std::string::npos);
}

TEST(ComparisonReport, JsonHasTheNumbers) {
  const auto json = nlohmann::json::parse(comparison_json(small_comparison()));
  EXPECT_EQ(json["buckets"][1]["shortest"], 8);
  EXPECT_EQ(json["buckets"][1]["sentences"], 2);
  EXPECT_EQ(json["models"][1]["architecture"], "transformer");
  EXPECT_EQ(json["models"][1]["bleu_by_bucket"][1], 39);
  EXPECT_EQ(json["models"][0]["bleu_by_third"].back(), 9);
  EXPECT_EQ(json["test"], "held out");
}

TEST(ComparisonFolder, RefusesInvalidJobs) {
  const auto refuses = [](const ComparisonJob& job, const std::string& message) {
    testing::expect_error<Error>([&] { ComparisonFolder::create(job, "/nonexistent/comparison", false); }, message);
  };
  refuses({.architectures = {}}, "nothing to compare: expected at least one architecture");
  refuses({.architectures = {"gpt"}},
          "'gpt' is not a translation architecture; expected rnn, rnn-attention or transformer");
  refuses({.architectures = {"rnn", "rnn"}}, "architecture rnn is given twice");
  refuses({.settings = {{"", "colour", "blue"}}}, "none of the compared models has a setting 'colour'");
  refuses({.settings = {{"rnn", "heads", "2"}}}, "none of the compared models has a setting 'rnn.heads'");
  testing::expect_error<Error>([] { ComparisonFolder::open("/nonexistent"); },
                               "/nonexistent: there is no comparison to resume");
}

}  // namespace
}  // namespace attend
