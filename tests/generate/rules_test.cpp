// What a model's folder may say of how to write: forced words, banned ones, lengths, repetitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "attend/generate/embed.h"
#include "attend/generate/search.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::random_sources;
using testing::tiny_model;

class Rules : public ::testing::Test {
 protected:
  std::vector<Hypothesis> found(const GenerationRules& rules, SearchOptions options = {}) const {
    options.rules = rules;
    if (options.max_length == 0) options.max_length = 12;
    std::vector<Hypothesis> result;
    search(dynamic_cast<const PairModel&>(*model_), tokenizer_, random_sources(1, 5, 5, 7), options,
           [&](int64_t, std::vector<Hypothesis> best) { result = std::move(best); });
    return result;
  }

  ByteTokenizer tokenizer_{12, 'a'};
  std::unique_ptr<Model> model_ = tiny_model("transformer", tokenizer_.size());
};

TEST_F(Rules, WordsAreForcedFirstAndLast) {
  for (const int64_t beam : {1, 3}) {
    const auto first = found({.forced_first = 9}, {.beam = beam});
    EXPECT_EQ(first[0].ids.at(0), 9);
    const GenerationRules rules{.as_transformers = true, .ends = {16}, .forced_last = 16, .banned = {3, 16}};
    SearchOptions options{.beam = beam, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 5};
    const auto last = found(rules, options);
    EXPECT_EQ(last[0].ids.size(), 4u);  // and the end, which stands in no list
    options.rules.forced_last = -1;
    GenerationRules open = rules;
    open.forced_last = -1;
    EXPECT_EQ(found(open, options)[0].ids.size(), 5u);
    EXPECT_TRUE(found(open, options)[0].is_cut);
  }
}

TEST_F(Rules, BannedWordsAndAnotherStart) {
  const auto free = found({.as_transformers = true});
  ASSERT_FALSE(free[0].ids.empty());
  GenerationRules rules{.as_transformers = true, .banned = {free[0].ids[0]}};
  const auto without = found(rules, {.beam = 4});
  for (const int32_t id : without[0].ids) EXPECT_NE(id, free[0].ids[0]);
  std::set<std::vector<int32_t>> written;
  for (int32_t start = 5; start < 12; ++start) written.insert(found({.start = start}, {.max_length = 6})[0].ids);
  EXPECT_GT(written.size(), 1u);
}

TEST_F(Rules, NoEndBeforeItsTimeAndNoRunTwice) {
  for (const int64_t beam : {1, 4}) {
    const auto usual = found({.as_transformers = true, .ends = {3, 5, 6, 7, 8}}, {.beam = beam});
    const auto later = found({.as_transformers = true, .ends = {3, 5, 6, 7, 8}, .min_length = 8}, {.beam = beam});
    EXPECT_GE(later[0].ids.size(), 7u);
    EXPECT_LE(usual[0].ids.size(), later[0].ids.size());
    const auto pairs = found({.as_transformers = true, .ends = {3}, .banned = {3}, .no_repeat = 2},
                             {.beam = beam, .stop = SearchStop::likely, .ends_at_limit = false, .max_length = 20});
    std::set<std::pair<int32_t, int32_t>> seen;
    const auto& ids = pairs[0].ids;
    ASSERT_EQ(ids.size(), 20u);
    for (size_t i = 1; i < ids.size(); ++i) EXPECT_TRUE(seen.emplace(ids[i - 1], ids[i]).second) << i;
  }
}

TEST_F(Rules, MustFitTheModel) {
  testing::expect_error<FormatError>([&] { found({.start = 1000}); },
                                     "the rules of generation name token 1000, but the model has only 17 words");
}

TEST(Embed, TheBatchChangesNothing) {
  const ByteTokenizer tokenizer(12, 'a');
  const std::vector<std::string> texts{"abc", "", "abcabcabc", "b"};
  for (const char* architecture : {"transformer", "gpt", "encoder"}) {
    const auto model = tiny_model(architecture, tokenizer.size());
    const auto all = embed(*model, tokenizer, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto alone = embed(*model, tokenizer, std::span(&texts[i], 1));
      if (texts[i].empty() && architecture == std::string("gpt")) continue;  // nothing is read: zeros
      EXPECT_NEAR(cosine(all[i].vector, alone[0].vector), 1, 1e-5) << architecture << ' ' << i;
    }
    EXPECT_EQ(all[0].vector.size(), all[1].vector.size());
    EXPECT_TRUE(embed(*model, tokenizer, texts, {.sentence = {.longest = 4}})[2].is_cut);
  }
  testing::expect_error<Error>([&] { embed(*tiny_model("rnn", tokenizer.size()), tokenizer, texts); },
                               "embed: a model of architecture rnn gives no vectors of texts");
}

}  // namespace
}  // namespace attend
