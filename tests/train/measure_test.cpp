// The metrics, on counts that can be checked by hand.
#include "attend/train/measure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/gradients.h"

namespace attend {
namespace {

using Lines = std::vector<std::string>;

TEST(TextMetrics, ChoosesTheTokenizerByTheReferences) {
  const auto tokenizer_of = [](const std::string& reference, const MetricOptions& options = {}) {
    const std::vector<Lines> references{{reference}};
    return text_metrics(Lines{reference}, references, options).bleu_signature;
  };
  EXPECT_EQ(tokenizer_of("Der Hund läuft."), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_EQ(tokenizer_of("今天天气很好。"), "nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp");
  EXPECT_EQ(tokenizer_of("他用 iPhone 14 Pro 拍照。"), "nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp");
  EXPECT_EQ(tokenizer_of("The sign 北京 means Beijing, the capital of the country."),
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_EQ(tokenizer_of("今天", {.tokenizer = BleuTokenizer::characters, .lowercase = true}),
            "nrefs:1|case:lc|eff:no|tok:char|smooth:exp");
}

TEST(TextMetrics, EqualCorpusBleuAndChrf) {
  const Lines hypotheses{"a small dog runs in the park", "it rains"};
  const std::vector<Lines> references{{"a small dog runs through the park", "it is raining"},
                                      {"a little dog runs in the park", "it rains today"}};
  const TextMetrics metrics = text_metrics(hypotheses, references);
  EXPECT_EQ(metrics.bleu.score, corpus_bleu(hypotheses, references).score);
  EXPECT_EQ(metrics.chrf, corpus_chrf(hypotheses, references));
  EXPECT_EQ(metrics.chrf_words, corpus_chrf(hypotheses, references, {.word_order = 2}));
  EXPECT_NE(metrics.chrf, metrics.chrf_words);
  EXPECT_EQ(metrics.chrf_words_signature, "nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no");
  EXPECT_EQ(metrics.sentences, 2);
  testing::expect_error<ShapeError>([&] { text_metrics(hypotheses, {}); }, "metrics: expected at least one reference");
}

TEST(Likelihood, GivesPerplexityAndBits) {
  const double nats = 100 * std::log(8.0);
  const LanguageMeasures measures{
      .likelihood = {.nats = nats, .tokens = 100}, .characters = 300, .bytes = 600, .words = 50};
  EXPECT_NEAR(measures.likelihood.loss(), std::log(8.0), 1e-12);
  EXPECT_NEAR(measures.likelihood.perplexity(), 8, 1e-12);
  EXPECT_NEAR(measures.word_perplexity(), 64, 1e-9);
  EXPECT_NEAR(measures.bits_per_character(), 1, 1e-12);
  EXPECT_NEAR(measures.bits_per_byte(), 0.5, 1e-12);
  EXPECT_EQ(LanguageMeasures{}.word_perplexity(), 1);
}

TEST(LabelMeasures, FollowFromTheCounts) {
  const LabelScore score{.label = "yes", .expected = 8, .chosen = 6, .right = 3};
  EXPECT_DOUBLE_EQ(score.precision(), 0.5);
  EXPECT_DOUBLE_EQ(score.recall(), 0.375);
  EXPECT_DOUBLE_EQ(score.f1(), 2 * 0.5 * 0.375 / (0.5 + 0.375));
  const LabelScore never{.label = "no", .expected = 0, .chosen = 0, .right = 0};
  EXPECT_EQ(never.f1(), 0);
  const LabelMeasures measures{.labels = {score, never}, .confusion = {}, .texts = 8, .right = 3};
  EXPECT_DOUBLE_EQ(measures.accuracy(), 0.375);
  EXPECT_DOUBLE_EQ(measures.macro_f1(), score.f1()) << "a label that is never expected does not count";
}

}  // namespace
}  // namespace attend
