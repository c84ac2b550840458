// Scores, alignments and labels of given pairs and texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "attend/generate/align.h"
#include "attend/generate/classify.h"
#include "attend/generate/score.h"
#include "attend/generate/translate.h"
#include "attend/tensor/creation.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"
#include "generate/word_tokens.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;
using Texts = std::vector<std::string>;

TEST(ScorePairs, EqualTheScoresOfSearch) {
  const ByteTokenizer tokenizer(60, 'A');
  for (const char* architecture : {"rnn", "rnn-attention", "transformer"}) {
    const auto model = tiny_model(architecture, tokenizer.size());
    const auto& pair = dynamic_cast<const PairModel&>(*model);
    const Texts sources{"Hello", "a", "something longer"};
    Texts targets;
    std::vector<double> expected;
    for (const TranslatedLine& line : translate(pair, tokenizer, sources, {.beam = 3, .max_length = 9})) {
      targets.push_back(line.best[0].text);
      expected.push_back(line.best[0].log_probability);
    }
    for (const int64_t batch_tokens : {1, 4096}) {
      const auto scores = score_pairs(pair, tokenizer, sources, targets, {.batch_tokens = batch_tokens});
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(scores[i].log_probability, expected[i], 2e-4) << architecture;
        EXPECT_EQ(scores[i].log_probabilities.size(), targets[i].size() + 1);
        EXPECT_EQ(scores[i].ids.back(), 3);
        EXPECT_FALSE(scores[i].is_cut);
      }
    }
    EXPECT_TRUE(score_pairs(pair, tokenizer, Texts{std::string(80, 'a')}, Texts{"b"})[0].is_cut);
    EXPECT_EQ(score_pairs(pair, tokenizer, Texts{"", "a"}, Texts{"", ""})[0].log_probabilities.size(), 1u);
    EXPECT_THROW(score_pairs(pair, tokenizer, sources, Texts{"a"}), ShapeError);
  }
}

TEST(Words, AreSeparatedByBlanks) {
  EXPECT_EQ(words_of("  Guten Tag,\tWelt! "), (Texts{"Guten", "Tag,", "Welt!"}));
  EXPECT_EQ(words_of("今天 weather很好"), (Texts{"今", "天", "weather", "很", "好"}));
  EXPECT_EQ(words_of("天天天"), (Texts{"天", "天", "天"}));
  EXPECT_EQ(words_of(""), Texts{});
  EXPECT_EQ(words_of("naïve 👍 שלום"), (Texts{"naïve", "👍", "שלום"}));
}

TEST(Words, KnowTheirTokens) {
  const ByteTokenizer tokenizer;
  const std::string text = "ab 今天 c";  // a space belongs to the word after it
  const auto ranges = word_tokens(tokenizer, text, word_places(text));
  ASSERT_EQ(ranges.size(), 4u);
  const std::vector<std::pair<int64_t, int64_t>> expected{{0, 2}, {2, 6}, {6, 9}, {9, 11}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ranges[i].first, expected[i].first);
    EXPECT_EQ(ranges[i].last, expected[i].second);
  }
}

class Aligning : public ::testing::TestWithParam<const char*> {};

/// The weights computed by hand: for one pair alone, token by token.
TEST_P(Aligning, MergesTokensToWords) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model(GetParam(), tokenizer.size());
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const Texts sources{"ab c", "今天 sehr lang, viel viel"}, targets{"xyz w", "好"};
  const auto aligned = align(pair, tokenizer, sources, targets);
  AttentionRecorder recorder;
  pair.hidden({.source = tensor<int64_t>({102, 103, 37, 104, 3}, {1, 5}),
               .source_lengths = {},
               .target = tensor<int64_t>({2, 125, 126, 127, 37}, {1, 5})},
              {.observer = &recorder});
  const auto layers = pair.cross_weights(recorder.traces);
  std::vector<double> expected(4);  // [xyz, w] × [ab, c]
  for (const Tensor& layer : layers) {
    const auto values = layer.to_vector<double>();
    const auto heads = static_cast<size_t>(layer.dim(1));
    for (size_t h = 0; h < heads; ++h) {
      for (size_t t = 0; t < 5; ++t) {
        for (size_t s = 0; s < 4; ++s) {
          const double tokens = t < 3 ? 3 : 2;
          expected[(t < 3 ? 0 : 2) + (s < 2 ? 0 : 1)] +=
              values[(h * 5 + t) * 5 + s] / tokens / static_cast<double>(heads * layers.size());
        }
      }
    }
  }
  ASSERT_EQ(aligned[0].weights.size(), 2u);
  for (size_t t = 0; t < 2; ++t) {
    for (size_t s = 0; s < 2; ++s) EXPECT_NEAR(aligned[0].weights[t][s], expected[2 * t + s], 1e-5);
    const int64_t best = expected[2 * t] >= expected[2 * t + 1] ? 0 : 1;
    EXPECT_EQ(aligned[0].links[t], (std::pair<int64_t, int64_t>(best, t)));
  }
  EXPECT_EQ(aligned[0].source, (Texts{"ab", "c"}));
  EXPECT_EQ(aligned[1].source, (Texts{"今", "天", "sehr", "lang,", "viel", "viel"}));
  EXPECT_EQ(aligned[1].weights.size(), 1u);
  EXPECT_EQ(pharaoh(aligned[1]), std::to_string(aligned[1].links[0].first) + "-0");
}

TEST_P(Aligning, TakesTheTokensThatAModelWrote) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model(GetParam(), tokenizer.size());
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const Texts sources{"ab c", "今天 sehr lang", "d"}, targets{"xyz w", "好 ja", ""};
  std::vector<Translation> written;
  for (const std::string& target : targets) written.push_back({.text = target, .ids = tokenizer.encode(target, false)});
  const auto by_text = align(pair, tokenizer, sources, targets), by_ids = align(pair, tokenizer, sources, written);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(by_text[i].target, by_ids[i].target);
    EXPECT_EQ(by_text[i].links, by_ids[i].links);
    EXPECT_EQ(by_text[i].weights, by_ids[i].weights);
  }
}

TEST(WordTokens, FollowTheGivenTokens) {
  const std::string text = "aa aa b 今天";
  int64_t left = 20;
  const auto tokenizer = train_tokenizer([&] { return left-- > 0 ? std::optional(text) : std::nullopt; },
                                         {.kind = TokenizerKind::bpe, .vocabulary = 300});
  std::vector<int32_t> single;  // the first word in two tokens, which encode() joins
  for (const char* piece : {"a", "a"}) single.push_back(tokenizer->encode(piece).at(0));
  const std::vector<int32_t> rest = tokenizer->encode(" aa b 今天");
  single.insert(single.end(), rest.begin(), rest.end());
  ASSERT_EQ(tokenizer->decode(single), text);
  ASSERT_LT(tokenizer->encode(text).size(), single.size());
  const auto ranges = word_tokens(*tokenizer, single, word_places(text));
  ASSERT_EQ(ranges.size(), 5u);  // aa, aa, b, 今, 天
  EXPECT_EQ(ranges[0].first, 0);
  EXPECT_EQ(ranges[0].last, 2);
  EXPECT_EQ(ranges[1].first, 2);
  for (size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_GE(ranges[i].first, ranges[i - 1].first);
    EXPECT_GT(ranges[i].last, ranges[i].first);
  }
  EXPECT_EQ(ranges.back().last, std::ssize(single));
}

TEST_P(Aligning, LayersAndHeadsCanBeChosen) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model(GetParam(), tokenizer.size());
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  const Texts source{"ab c"}, target{"xyz w"};
  const bool is_transformer = std::string(GetParam()) == "transformer";
  const int64_t layers = is_transformer ? 4 : 1, heads = is_transformer ? 2 : 1;
  double mean = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (int64_t head = 0; head < heads; ++head) {
      mean += align(pair, tokenizer, source, target, {.layer = layer, .head = head})[0].weights[0][0];
    }
  }
  EXPECT_NEAR(align(pair, tokenizer, source, target)[0].weights[0][0], mean / static_cast<double>(layers * heads),
              1e-6);
  EXPECT_THROW(align(pair, tokenizer, source, target, {.layer = layers}), ShapeError);
  EXPECT_THROW(align(pair, tokenizer, source, target, {.head = heads}), ShapeError);
  EXPECT_THROW(align(pair, tokenizer, source, target, {.head = -1}), ShapeError);
}

TEST_P(Aligning, BlankAndLongTextsHaveAlignments) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model(GetParam(), tokenizer.size());
  const auto& pair = dynamic_cast<const PairModel&>(*model);
  std::string longer = "a";
  for (int i = 0; i < 50; ++i) longer += " b";
  const auto aligned = align(pair, tokenizer, Texts{"", "a", "", longer}, Texts{"", "", "b", longer});
  EXPECT_EQ(pharaoh(aligned[0]), "");
  EXPECT_EQ(pharaoh(aligned[1]), "");
  EXPECT_EQ(pharaoh(aligned[2]), "");
  EXPECT_EQ(aligned[3].weights.size(), 51u);
  EXPECT_LT(aligned[3].links.size(), 51u);  // truncated at the context
}

INSTANTIATE_TEST_SUITE_P(All, Aligning, ::testing::Values("rnn-attention", "transformer"), [](const auto& model) {
  std::string name = model.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Align, AModelWithoutCrossAttentionIsAnError) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model("rnn", tokenizer.size());
  EXPECT_THROW(align(dynamic_cast<const PairModel&>(*model), tokenizer, Texts{"a"}, Texts{"b"}), Error);
}

TEST(Classify, GivesLabelsInTheOrderOfTheTexts) {
  const ByteTokenizer tokenizer;
  const auto model = tiny_model("encoder", tokenizer.size());
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
  const Texts texts{"a fine text", "", "今天天气很好", std::string(200, 'x'), "a"};
  const auto together = classify(encoder, tokenizer, texts), alone = classify(encoder, tokenizer, texts, 1);
  ASSERT_EQ(together.size(), 5u);
  EXPECT_EQ(together[1].label, -1);
  EXPECT_TRUE(together[1].scores.empty());
  EXPECT_TRUE(together[3].is_cut);
  EXPECT_EQ(together[3].tokens, 64);
  EXPECT_FALSE(together[0].is_cut);
  for (const size_t i : {0u, 2u, 3u, 4u}) {
    ASSERT_EQ(together[i].scores.size(), 3u);
    double total = 0;
    for (size_t label = 0; label < 3; ++label) {
      total += together[i].scores[label];
      EXPECT_NEAR(together[i].scores[label], alone[i].scores[label], 1e-5);
      EXPECT_LE(together[i].scores[label], together[i].scores[static_cast<size_t>(together[i].label)]);
    }
    EXPECT_NEAR(total, 1, 1e-6);
  }
  std::vector<int64_t> ids{2};
  for (const int32_t id : tokenizer.encode(texts[0], false)) ids.push_back(id);
  ids.push_back(3);
  const auto logits = encoder.classify({.ids = tensor(ids, {1, std::ssize(ids)}), .lengths = {}}).to_vector<double>();
  EXPECT_NEAR(std::log(together[0].scores[0] / together[0].scores[1]), logits[0] - logits[1], 1e-4);
}

}  // namespace
}  // namespace attend
