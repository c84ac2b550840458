// The token sequences that models read.
#include "text/framing.h"

#include <gtest/gtest.h>

#include "attend/generate/align.h"
#include "attend/generate/embed.h"
#include "attend/generate/score.h"
#include "attend/generate/translate.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;

/// Encodes `$` as the end token. Its template puts a begin token before a text and an end token after it.
class FramingTokenizer final : public Tokenizer {
 public:
  Ids encode(std::string_view text, bool add_special) const override {
    Ids ids;
    if (add_special) ids.push_back(2);
    for (const char letter : text) ids.push_back(letter == '$' ? 3 : bytes_.encode({&letter, 1}, false)[0]);
    if (add_special) ids.push_back(3);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool keep) const override { return bytes_.decode(ids, keep); }
  int64_t size() const override { return bytes_.size(); }
  std::string token(int32_t id) const override { return bytes_.token(id); }
  std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
  const SpecialTokens& special() const override { return bytes_.special(); }
  void save(const std::string&) const override {}

 private:
  ByteTokenizer bytes_;
};

TEST(EncodePrompt, AnEndTokenInThePromptStays) {
  const FramingTokenizer tokenizer;
  const GenerationRules rules{.as_transformers = true};
  const int32_t a = 5 + 'a';
  EXPECT_EQ(frame_prompt(tokenizer, "aa", rules.as_transformers), (Ids{2, a, a}));
  EXPECT_EQ(frame_prompt(tokenizer, "a$", rules.as_transformers), (Ids{2, a, 3}));
  EXPECT_EQ(frame_prompt(tokenizer, "a$$", rules.as_transformers), (Ids{2, a, 3, 3}));
  EXPECT_EQ(frame_prompt(tokenizer, "a$a", rules.as_transformers), (Ids{2, a, 3, a}));
  EXPECT_EQ(frame_prompt(tokenizer, "", rules.as_transformers), (Ids{2}));
  EXPECT_EQ(frame_prompt(tokenizer, "a$", {}), (Ids{a, 3}));
}

TEST(EncodePrompt, ScoringUsesTheSameTokens) {
  const FramingTokenizer tokenizer;
  const auto model = tiny_model("gpt", tokenizer.size());
  const auto scores = score_texts(dynamic_cast<const LanguageModel&>(*model), tokenizer, Texts{"aa", "aa$"},
                                  {.rules = {.as_transformers = true}});
  EXPECT_EQ(scores[0].log_probabilities.size(), 2u);
  EXPECT_EQ(scores[1].log_probabilities.size(), 3u);
}

class Prefix : public ::testing::Test {
 protected:
  const ByteTokenizer tokenizer_;
  const GenerationRules rules_{.prefix = "ab cd: "};
  std::unique_ptr<Model> model_ = tiny_model("transformer", tokenizer_.size());
  const PairModel& pair_ = dynamic_cast<const PairModel&>(*model_);
};

TEST_F(Prefix, ComesBeforeTheSource) {
  EXPECT_EQ(frame_source(tokenizer_, "xy", 99, rules_.prefix).ids, frame_source(tokenizer_, "ab cd: xy", 99).ids);
  EXPECT_TRUE(frame_source(tokenizer_, "", 99, rules_.prefix).is_blank);
  EXPECT_TRUE(frame_source(tokenizer_, "xy", 5, rules_.prefix).is_cut);
}

TEST_F(Prefix, IsUsedByEveryFunctionThatReadsSources) {
  const Texts texts{"xy z", ""}, whole{"ab cd: xy z", ""}, targets{"q r", "s"};
  const auto by_rule = translate(pair_, tokenizer_, texts, {.max_length = 9, .rules = rules_}),
             by_text = translate(pair_, tokenizer_, whole, {.max_length = 9});
  EXPECT_EQ(by_rule[0].best[0].log_probability, by_text[0].best[0].log_probability);
  EXPECT_EQ(by_rule[0].source_tokens, by_text[0].source_tokens);
  EXPECT_EQ(by_rule[1].best[0].text, "");
  EXPECT_EQ(by_rule[1].source_tokens, 0);
  EXPECT_EQ(score_pairs(pair_, tokenizer_, texts, targets, {.rules = rules_})[0].log_probabilities,
            score_pairs(pair_, tokenizer_, whole, targets)[0].log_probabilities);
  EXPECT_EQ(embed(*model_, tokenizer_, texts, {.rules = rules_})[0].vector,
            embed(*model_, tokenizer_, whole)[0].vector);
}

TEST_F(Prefix, ItsWordsAreNotAligned) {
  const Texts texts{"xy z"}, whole{"ab cd: xy z"}, targets{"q r"};
  const WordAlignment own = align(pair_, tokenizer_, texts, targets, {.rules = rules_})[0],
                      all = align(pair_, tokenizer_, whole, targets)[0];
  EXPECT_EQ(own.source, (Texts{"xy", "z"}));
  ASSERT_EQ(all.source.size(), 4u);
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(own.weights[row], std::vector<double>(all.weights[row].begin() + 2, all.weights[row].end()));
    EXPECT_LT(own.links[row].first, 2);
  }
}

}  // namespace
}  // namespace attend
