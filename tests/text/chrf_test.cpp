#include "attend/text/chrf.h"

#include "testing/gradients.h"
#include "text/metrics/ngrams.h"

namespace attend {
namespace {

using testing::expect_error;
using Strings = std::vector<std::string>;

double chrf(const std::string& hypothesis, const Strings& references, const ChrfOptions& options = {}) {
  return sentence_chrf(hypothesis, references, options);
}

/// The F score of one order: precision 2/3, recall 2/4.
TEST(Chrf, TheEquation) {
  const double precision = 2.0 / 3, recall = 2.0 / 4;
  EXPECT_NEAR(chrf("abx", {"abcd"}, {.character_order = 1}), 100 * 5 * precision * recall / (4 * precision + recall),
              1e-9);
  EXPECT_NEAR(chrf("abx", {"abcd"}, {.character_order = 1, .beta = 1}),
              100 * 2 * precision * recall / (precision + recall), 1e-9);
}

TEST(Chrf, OrdersLongerThanASideDoNotCount) {
  EXPECT_NEAR(chrf("ab", {"ab"}), 100, 1e-9);
  EXPECT_NEAR(chrf("ab", {"ab"}, {.epsilon = true}), 100.0 / 3, 1e-9) << "two orders of six";
  EXPECT_EQ(chrf("", {"ab"}), 0);
  const Strings reference{"a"};
  const ChrfStatistics counts = chrf_statistics("abc", reference, {.character_order = 2});
  EXPECT_EQ(counts.orders[0].hypothesis, 3);
  EXPECT_EQ(counts.orders[1].hypothesis, 0) << "the reference has no pairs";
}

TEST(Chrf, SpacesAndCase) {
  EXPECT_NEAR(chrf("a b c", {"ab c"}), 100, 1e-9);
  EXPECT_LT(chrf("a b c", {"ab c"}, {.whitespace = true}), 99);
  EXPECT_EQ(chrf("ÄB", {"äb"}), 0);
  EXPECT_NEAR(chrf("ÄB", {"äb"}, {.lowercase = true}), 100, 1e-9);
  EXPECT_NEAR(chrf("今天 天气", {"今天\u3000天气"}), 100, 1e-9);
}

TEST(Chrf, WordsForChrfPlusPlus) {
  const Strings reference{"so, (yes) it's"};
  const ChrfStatistics counts = chrf_statistics("so , (yes)", reference, {.character_order = 1, .word_order = 2});
  ASSERT_EQ(counts.orders.size(), 3u);
  // so , (yes ) against so , (yes ) it's: of a word with punctuation at both ends, only the last mark is split off.
  EXPECT_EQ(counts.orders[1].hypothesis, 4);
  EXPECT_EQ(counts.orders[1].reference, 5);
  EXPECT_EQ(counts.orders[1].matches, 4);
  EXPECT_EQ(counts.orders[2].matches, 3);
  EXPECT_LT(chrf("abc def", {"def abc"}, {.word_order = 2}), chrf("abc def", {"abc def"}, {.word_order = 2}));
}

TEST(Chrf, TheBestOfSeveralReferences) {
  const double best = chrf("abcdef", {"abcdex"});
  EXPECT_DOUBLE_EQ(chrf("abcdef", {"zzz", "abcdex", ""}), best);
  const Strings hypotheses{"abcdef", "uvw"};
  const std::vector<Strings> references{{"zzz", "uvw"}, {"abcdex", "aaa"}}, chosen{{"abcdex", "uvw"}};
  EXPECT_DOUBLE_EQ(corpus_chrf(hypotheses, references), corpus_chrf(hypotheses, chosen));
}

TEST(Chrf, RefusesInvalidOptions) {
  const Strings one{"a"}, two{"a", "b"};
  const std::vector<Strings> references{one};
  expect_error<ShapeError>([&] { corpus_chrf(two, references); },
                           "chrf: expected as many references as hypotheses, got 1 and 2");
  expect_error<ShapeError>([] { chrf("a", {""}); }, "chrf: the sentence has no reference");
  expect_error<ShapeError>([] { chrf("a", {"a"}, {.character_order = 0}); },
                           "chrf: expected character_order ≥ 1, word_order ≥ 0 and beta > 0, got 0, 0, 2");
  EXPECT_THROW(chrf("\xff", {"a"}), FormatError);
}

TEST(Chrf, AsText) {
  EXPECT_EQ(chrf_name({}), "chrF2");
  EXPECT_EQ(chrf_name({.word_order = 2}), "chrF2++");
  EXPECT_EQ(chrf_signature({}), "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no");
  EXPECT_EQ(chrf_signature({.word_order = 2, .lowercase = true, .whitespace = true, .epsilon = true}, 3),
            "nrefs:3|case:lc|eff:no|nc:6|nw:2|space:yes");
}

TEST(NGrams, EqualNGramsHaveEqualNumbers) {
  NGrams grams;
  for (int round = 0; round < 3; ++round) {  // tables are reused
    grams.start({{7, 8, 7, 8}, {8, 7, 8}, {}});
    EXPECT_EQ(grams.count(), 2u);
    EXPECT_EQ(grams.of(0)[0], grams.of(1)[1]);
    grams.next_order();
    EXPECT_EQ(grams.count(), 2u);  // 78 and 87
    EXPECT_EQ(grams.of(0)[0], grams.of(0)[2]);
    EXPECT_EQ(grams.of(0)[1], grams.of(1)[0]);
    EXPECT_TRUE(grams.of(2).empty());
    grams.next_order();
    EXPECT_EQ(grams.of(0)[1], grams.of(1)[0]);
    grams.next_order();
    EXPECT_EQ(grams.of(0).size(), 1u);
    EXPECT_TRUE(grams.of(1).empty());
  }
}

}  // namespace
}  // namespace attend
