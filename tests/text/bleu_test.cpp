#include "attend/text/bleu.h"

#include <cmath>

#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;
using Strings = std::vector<std::string>;
using Counts = std::vector<int64_t>;

BleuScore bleu(const Strings& hypotheses, const std::vector<Strings>& references, const BleuOptions& options = {}) {
  return corpus_bleu(hypotheses, references, options);
}

TEST(BleuWords, Western) {
  const auto words = [](const char* line) { return bleu_words(line, BleuTokenizer::v13a); };
  EXPECT_EQ(words("Hello, world."), (Strings{"Hello", ",", "world", "."}));
  EXPECT_EQ(words("1,000.5 km, 3-4 T-Shirts"), (Strings{"1,000.5", "km", ",", "3", "-", "4", "T-Shirts"}));
  EXPECT_EQ(words("don't (really) a/b"), (Strings{"don't", "(", "really", ")", "a", "/", "b"}));
  EXPECT_EQ(words("&quot;a&quot; &lt;b&gt; &amp;"), (Strings{"\"", "a", "\"", "<", "b", ">", "&"}));
  EXPECT_EQ(words("a<skipped>b"), (Strings{"ab"}));
  EXPECT_EQ(words("in 2025."), (Strings{"in", "2025", "."}));
  EXPECT_EQ(words("a... b"), (Strings{"a", ".", ".", ".", "b"}));
  EXPECT_EQ(words("„Ja“, sagte er…"), (Strings{"„Ja“", ",", "sagte", "er…"})) << "only ASCII marks are known";
  EXPECT_EQ(words(" \u3000\u00a0"), Strings{});
}

TEST(BleuWords, Chinese) {
  const auto words = [](const char* line) { return bleu_words(line, BleuTokenizer::zh); };
  EXPECT_EQ(words("今天GPT-4很好。"), (Strings{"今", "天", "GPT-4", "很", "好", "。"}));
  EXPECT_EQ(words("价格3,5元"), (Strings{"价", "格", "3,5", "元"}));
  EXPECT_EQ(words("你好—“谢谢”"), (Strings{"你", "好", "—", "“", "谢", "谢", "”"}));
  EXPECT_EQ(words("𠀀𠀁"), (Strings{"𠀀𠀁"})) << "sacreBLEU's ranges end with the first plane";
  EXPECT_EQ(words(".5元"), (Strings{".5", "元"}));
}

TEST(BleuWords, CharactersAndUnicodeMarks) {
  EXPECT_EQ(bleu_words("a b今😀", BleuTokenizer::characters), (Strings{"a", "b", "今", "😀"}));
  EXPECT_EQ(bleu_words("„Ja“ — 1,5 €!", BleuTokenizer::intl), (Strings{"„", "Ja", "“", "—", "1,5", "€", "!"}));
  EXPECT_EQ(bleu_words("in 2025.", BleuTokenizer::intl), (Strings{"in", "2025."})) << "as mteval-v14 has it";
  EXPECT_EQ(bleu_words(" a\tb\u2003c ", BleuTokenizer::none), (Strings{"a", "b", "c"}));
  EXPECT_THROW(bleu_words("\xff", BleuTokenizer::none), FormatError);
}

TEST(Bleu, CountsAreClippedByOneReference) {
  const Strings references{"the cat is on the mat", "there is a cat on the mat"};
  const BleuStatistics counts = bleu_statistics("the the the the the the the", references);
  EXPECT_EQ(counts.matches, (Counts{2, 0, 0, 0}));  // Papineni's own example
  EXPECT_EQ(counts.totals, (Counts{7, 6, 5, 4}));
  EXPECT_EQ(counts.hypothesis_length, 7);
  EXPECT_EQ(counts.reference_length, 7);
}

TEST(Bleu, TheEquation) {
  const BleuScore score = bleu({"a b c d e"}, {{"a b c d x y"}});
  EXPECT_EQ(score.statistics.matches, (Counts{4, 3, 2, 1}));
  const double penalty = std::exp(1 - 6.0 / 5.0);
  EXPECT_DOUBLE_EQ(score.brevity_penalty, penalty);
  EXPECT_NEAR(score.score, 100 * penalty * std::pow(4.0 / 5 * 3 / 4 * 2 / 3 * 1 / 2, 0.25), 1e-9);
  EXPECT_NEAR(score.precisions[2], 200.0 / 3, 1e-9);
}

TEST(Bleu, TheShorterOfEquallyCloseReferencesCounts) {
  const Strings references{"1 2 3 4 5", "1 2 3", "1 2 3 4 5 6 7 8"};
  EXPECT_EQ(bleu_statistics("1 2 3 4", references).reference_length, 3);
}

TEST(Bleu, StatisticsOfSentencesAddUp) {
  const Strings hypotheses{"a b c d e", "x y z"}, references{"a b c d f", "x y q z"};
  BleuStatistics sum;
  for (size_t i = 0; i < 2; ++i) sum += bleu_statistics(hypotheses[i], std::span(references).subspan(i, 1));
  EXPECT_DOUBLE_EQ(bleu_score(sum).score, bleu(hypotheses, {references}).score);
  EXPECT_EQ(sum.totals, (Counts{8, 6, 4, 2}));
}

TEST(Bleu, Smoothing) {
  // 4 words, all correct, but no two in order: precisions 1, 0/3, 0/2, 0/1.
  const auto score = [](BleuSmoothing smoothing, std::optional<double> value = {}) {
    return bleu({"d c b a"}, {{"a b c d"}}, {.smoothing = smoothing, .smoothing_value = value}).score / 100;
  };
  EXPECT_EQ(score(BleuSmoothing::none), 0);
  EXPECT_NEAR(score(BleuSmoothing::exponential), std::pow(1.0 / (2 * 3) / (4 * 2) / (8 * 1), 0.25), 1e-12);
  EXPECT_NEAR(score(BleuSmoothing::floor), std::pow(0.1 / 3 * 0.1 / 2 * 0.1, 0.25), 1e-12);
  EXPECT_NEAR(score(BleuSmoothing::floor, 0.5), std::pow(0.5 / 3 * 0.5 / 2 * 0.5, 0.25), 1e-12);
  EXPECT_NEAR(score(BleuSmoothing::add_k), std::pow(1.0 / 4 * 1 / 3 * 1 / 2, 0.25), 1e-12);
  EXPECT_NEAR(score(BleuSmoothing::add_k, 2), std::pow(2.0 / 5 * 2 / 4 * 2 / 3, 0.25), 1e-12);
}

TEST(Bleu, ShortSentencesNeedTheEffectiveOrder) {
  const Strings reference{"two words"};
  EXPECT_EQ(bleu({"two words"}, {reference}).score, 0);
  EXPECT_NEAR(sentence_bleu("two words", reference).score, 100, 1e-9);
  EXPECT_NEAR(bleu({"two words"}, {reference}, {.max_order = 2}).score, 100, 1e-9);
}

TEST(Bleu, CaseAndTokenizerMatter) {
  EXPECT_LT(bleu({"DAS IST ES NUN"}, {{"das ist es nun"}}).score, 1);
  EXPECT_NEAR(bleu({"DAS IST ES NUN"}, {{"das ist es nun"}}, {.lowercase = true}).score, 100, 1e-9);
  EXPECT_EQ(bleu({"今天天气好"}, {{"今天天气很好"}}).score, 0) << "one word each";
  EXPECT_GT(bleu({"今天天气好"}, {{"今天天气很好"}}, {.tokenizer = BleuTokenizer::zh}).score, 50);
}

TEST(Bleu, ChoosesATokenizerByTheScript) {
  const auto usual = [](std::vector<std::string> lines) { return usual_bleu_tokenizer(lines); };
  EXPECT_EQ(usual({"今天天气很好"}), BleuTokenizer::zh);
  EXPECT_EQ(usual({"Mr. 王 came home late that night"}), BleuTokenizer::v13a);
  EXPECT_EQ(usual({"今日はとても天気がいいです"}), BleuTokenizer::characters);
}

TEST(Bleu, IsNeverAbove100) {
  const std::string line = "the cat sat on the mat and looked at the dog in the garden";
  EXPECT_LE(bleu({line}, {{line}}).score, 100.0);
}

TEST(Bleu, EmptyTexts) {
  EXPECT_EQ(bleu({""}, {{"a"}}).score, 0);
  EXPECT_EQ(bleu({""}, {{"a"}}).brevity_penalty, 0);
  EXPECT_EQ(bleu({}, {{}}).score, 0);
  EXPECT_EQ(bleu({"a b c d"}, {{" "}}).score, 0) << "a blank reference is one";
}

TEST(Bleu, RefusesInvalidOptions) {
  expect_error<ShapeError>(
      [] {
        bleu({"a", "b"}, {{"a"}});
      },
      "bleu: expected as many references as hypotheses, got 1 and 2");
  expect_error<ShapeError>([] { bleu({"a"}, {}); }, "bleu: expected at least one list of references, got none");
  expect_error<ShapeError>(
      [] {
        bleu({"a", "b"}, {{"x", ""}, {"y", ""}});
      },
      "bleu: sentence 2 has no reference: all 2 references are empty");
  EXPECT_NEAR(bleu({"a b c d"}, {{""}, {"a b c d"}}).score, 100, 1e-9) << "an empty one of several is left out";
  expect_error<ShapeError>([] { bleu({"a"}, {{"a"}}, {.max_order = 0}); }, "bleu: expected max_order ≥ 1, got 0");
  expect_error<Error>([] { bleu_tokenizer("13b"); },
                      "bleu: expected the tokenizer 13a, zh, char, intl or none, got '13b'");
  expect_error<Error>([] { bleu_smoothing("log"); },
                      "bleu: expected the smoothing exp, floor, add-k or none, got 'log'");
  EXPECT_THROW(bleu({"\xff"}, {{"a"}}), FormatError);
}

TEST(Bleu, AsText) {
  EXPECT_EQ(bleu_signature({}), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_EQ(bleu_signature({.tokenizer = BleuTokenizer::characters,
                            .lowercase = true,
                            .smoothing = BleuSmoothing::floor,
                            .effective_order = true},
                           2),
            "nrefs:2|case:lc|eff:yes|tok:char|smooth:floor[0.10]");
  EXPECT_EQ(bleu_signature({.smoothing = BleuSmoothing::add_k, .smoothing_value = 2}, -1),
            "nrefs:var|case:mixed|eff:no|tok:13a|smooth:add-k[2.00]");
  EXPECT_EQ(details(bleu({"a b c d e"}, {{"a b c d x y"}})),
            "80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)");
}

}  // namespace
}  // namespace attend
