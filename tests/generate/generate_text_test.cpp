#include "attend/generate/generate_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "attend/base/error.h"
#include "attend/base/threads.h"
#include "attend/generate/score.h"
#include "attend/generate/search.h"
#include "attend/ops/softmax.h"
#include "attend/tensor/creation.h"
#include "attend/text/utf8.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;
using Texts = std::vector<std::string>;

class Generating : public ::testing::Test {
 protected:
  ByteTokenizer tokenizer_{60, 'A'};
  std::unique_ptr<Model> model_ = tiny_model("gpt", tokenizer_.size(), {{"context", "24"}});
  const LanguageModel& gpt_ = dynamic_cast<const LanguageModel&>(*model_);
};

TEST_F(Generating, GreedyTakesTheBestTokenAtEachStep) {
  const GeneratedText text =
      generate_text(gpt_, tokenizer_, Texts{"Hello"}, {.tokens = 12, .sampling = {.temperature = 0}})[0];
  std::vector<int64_t> ids;
  for (const int32_t id : tokenizer_.encode("Hello", false)) ids.push_back(id);
  double log_probability = 0;
  for (const int32_t id : text.ids) {
    const Tensor logs = log_softmax(gpt_.head().logits(gpt_.hidden(tensor(ids, {1, std::ssize(ids)}))));
    const auto values = logs.to_vector<double>();
    const std::vector<double> last(values.end() - gpt_.vocab_size(), values.end());
    for (size_t other = 3; other < last.size(); ++other) {
      if (other != 4) {
        EXPECT_GE(last[static_cast<size_t>(id)], last[other] - 1e-4);
      }
    }
    log_probability += last[static_cast<size_t>(id)];
    ids.push_back(id);
  }
  EXPECT_EQ(text.ending, Ending::length);
  EXPECT_EQ(text.ids.size(), 12u);
  EXPECT_EQ(text.prompt_tokens, 5);
  EXPECT_EQ(text.text, tokenizer_.decode(text.ids, false));
  EXPECT_NEAR(text.log_probability, log_probability, 1e-3);
}

TEST_F(Generating, NeitherBatchesNorTheCacheNorThreadsMatter) {
  const Texts prompts{"Hello", "", "A longer prompt than the context has room for", "x", "Hello"};
  GenerateOptions options{.tokens = 40, .sampling = {.top_k = 10, .repetition_penalty = 1.1, .seed = 4}, .copies = 2};
  const auto together = generate_text(gpt_, tokenizer_, prompts, options);
  ASSERT_EQ(together.size(), 10u);
  EXPECT_NE(together[0].text, together[1].text);
  EXPECT_NE(together[0].text, together[8].text);  // the same prompt at another index has another sample
  const auto expect_same = [&](const GenerateOptions& changed) {
    const auto texts = generate_text(gpt_, tokenizer_, prompts, changed);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].text, together[i].text) << i;
      EXPECT_EQ(texts[i].ids, together[i].ids) << i;
      EXPECT_NEAR(texts[i].log_probability, together[i].log_probability, 1e-3);
      EXPECT_EQ(texts[i].ending, together[i].ending);
    }
  };
  options.batch_rows = 1;
  expect_same(options);
  options.batch_rows = 3;
  options.use_cache = false;
  expect_same(options);
  options = {.tokens = 40, .sampling = options.sampling, .copies = 2};
  const int before = threads();
  set_threads(1);
  expect_same(options);
  set_threads(before);
  options.first_index = 3;
  EXPECT_EQ(generate_text(gpt_, tokenizer_, Texts{"x"}, options)[1].text, together[7].text);
}

TEST_F(Generating, ContinuesBeyondTheContext) {
  const GenerateOptions options{.tokens = 100, .sampling = {.seed = 1}, .goes_past_end = true};
  const GeneratedText text = generate_text(gpt_, tokenizer_, Texts{"abc"}, options)[0];
  EXPECT_EQ(text.ids.size(), 100u);
  EXPECT_EQ(generate_text(gpt_, tokenizer_, "abc", options), text.text);
}

TEST_F(Generating, StreamsWhatItReturns) {
  const ByteTokenizer bytes;
  const auto model = tiny_model("gpt", bytes.size());
  const auto& gpt = dynamic_cast<const LanguageModel&>(*model);
  std::vector<std::string> streamed(4);
  const auto texts =
      generate_text(gpt, bytes, Texts{"今天", "b"}, {.tokens = 50, .copies = 2}, [&](const TextPiece& piece) {
        EXPECT_TRUE(is_utf8(piece.text));
        streamed[static_cast<size_t>(piece.prompt * 2 + piece.copy)] += piece.text;
        return true;
      });
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(streamed[i], texts[i].text);
    EXPECT_EQ(texts[i].text, bytes.decode(texts[i].ids, false));
  }
}

TEST_F(Generating, EndsAtStopStringsAndLimits) {
  const GenerateOptions plain{.tokens = 60, .sampling = {.seed = 3}, .goes_past_end = true};
  const std::string whole = generate_text(gpt_, tokenizer_, Texts{"abc"}, plain)[0].text;
  ASSERT_GT(whole.size(), 20u);
  GenerateOptions options = plain;
  options.stop = {whole.substr(7, 3), "never this"};
  const GeneratedText stopped = generate_text(gpt_, tokenizer_, Texts{"abc"}, options)[0];
  EXPECT_EQ(stopped.ending, Ending::stop);
  EXPECT_EQ(stopped.text, whole.substr(0, whole.find(options.stop[0])));
  int calls = 0;
  const GeneratedText broken =
      generate_text(gpt_, tokenizer_, Texts{"abc"}, plain, [&](const TextPiece&) { return ++calls < 5; })[0];
  EXPECT_EQ(broken.ending, Ending::callback);
  EXPECT_EQ(broken.ids.size(), 5u);
  int ended = 0;
  for (const GeneratedText& text :
       generate_text(gpt_, tokenizer_, Texts{"abc"}, {.tokens = 200, .sampling = {.temperature = 2}, .copies = 20})) {
    ended += text.ending == Ending::end;
    if (text.ending == Ending::end) {
      EXPECT_LT(text.ids.size(), 200u);
    }
  }
  EXPECT_GT(ended, 0);
}

TEST_F(Generating, FollowsTheFoldersRules) {
  const auto written = [&](const GenerationRules& rules, GenerateOptions options = {}) {
    options.sampling.temperature = 0;
    options.rules = rules;
    return generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0];
  };
  const GenerationRules open{.as_transformers = true, .ends = {3}, .banned = {3}};
  GenerationRules once = open;
  once.no_repeat = 1;
  const auto ids = written(once, {.tokens = 30}).ids;
  std::set<int32_t> seen{ids.begin(), ids.end()};
  EXPECT_EQ(seen.size(), 30u);
  for (const int32_t id : tokenizer_.encode("Hello", false)) EXPECT_FALSE(seen.contains(id));  // nor of the prompt
  GenerationRules penalty = open;
  penalty.repetition_penalty = 1.5;
  EXPECT_EQ(written(penalty, {.tokens = 12}).ids,
            written(open, {.tokens = 12, .sampling = {.repetition_penalty = 1.5}}).ids);
  GenerationRules last = open;
  last.forced_last = 3;
  const GeneratedText cut = written(last, {.tokens = 6});
  EXPECT_EQ(cut.ids.size(), 5u);
  EXPECT_EQ(cut.ending, Ending::length);
  GenerationRules late{.as_transformers = true, .ends = {written(open, {.tokens = 1}).ids[0]}};
  EXPECT_EQ(written(late).ids.size(), 0u);
  late.min_length = 8;  // 5 of them are the prompt
  EXPECT_GE(written(late, {.tokens = 9}).ids.size(), 3u);
}

TEST_F(Generating, TheLengthFollowsTheOrderOfPrecedence) {
  GenerateOptions options;
  EXPECT_EQ(most_tokens(options, 5), 200);
  options.rules.max_length = 60;
  EXPECT_EQ(most_tokens(options, 5), 55);
  EXPECT_EQ(most_tokens(options, 60), 200);  // max_length is ignored if the prompt already reaches it
  options.rules.max_length = 4000;
  EXPECT_EQ(most_tokens(options, 5), 200);
  options.rules.max_new = 300;
  EXPECT_EQ(most_tokens(options, 5), 300);
  options.tokens = 7;
  EXPECT_EQ(most_tokens(options, 5), 7);
}

TEST_F(Generating, ABeamFindsWhatSearchFinds) {
  GenerateOptions options{.tokens = 10, .beam = 4, .copies = 2};
  options.rules = {.as_transformers = true, .ends = {3}, .no_repeat = 2, .length_penalty = 0.5};
  std::string shown;
  const auto texts = generate_text(gpt_, tokenizer_, Texts{"Hello", "b"}, options, [&](const TextPiece& piece) {
    shown += std::string(piece.text) + "|";
    return true;
  });
  ASSERT_EQ(texts.size(), 4u);
  SearchOptions search_options = search_by(options.rules);
  search_options.beam = 4, search_options.n_best = 2, search_options.max_length = 10;
  const std::vector<std::vector<int32_t>> prompts{tokenizer_.encode("Hello", false), tokenizer_.encode("b", false)};
  search(gpt_, Vocabulary::of(tokenizer_, gpt_.vocab_size(), options.rules), prompts, search_options,
         [&](int64_t prompt, const std::vector<Hypothesis>& best) {
           for (size_t copy = 0; copy < 2; ++copy) {
             const GeneratedText& text = texts[static_cast<size_t>(prompt) * 2 + copy];
             EXPECT_EQ(text.ids, best[copy].ids);
             EXPECT_EQ(text.prompt, prompt);
             EXPECT_EQ(text.text, tokenizer_.decode(best[copy].ids, false));
             EXPECT_NEAR(text.log_probability, best[copy].log_probability, 1e-4);
             EXPECT_EQ(text.ending, best[copy].is_cut ? Ending::length : Ending::end);
           }
         });
  EXPECT_EQ(shown, texts[0].text + "|" + texts[1].text + "|" + texts[2].text + "|" + texts[3].text + "|");
  options.stop = {texts[0].text.substr(3, 2)};
  const GeneratedText stopped = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0];
  EXPECT_EQ(stopped.ending, Ending::stop);
  EXPECT_TRUE(texts[0].text.starts_with(stopped.text));
}

TEST_F(Generating, NanIsAnError) {
  for (auto& [name, tensor] : model_->parameters()) {
    if (name == "embedding.weight") tensor.data<float>()[16 * 7] = NAN;
  }
  testing::expect_error<Error>([&] { generate_text(gpt_, tokenizer_, Texts{"Hello"}); },
                               "generate: the model computed NaN: its weights are damaged");
  testing::expect_error<Error>([&] { score_texts(gpt_, tokenizer_, Texts{"Hello"}); },
                               "score: the model computed NaN: its weights are damaged");
}

TEST_F(Generating, RefusesInvalidOptions) {
  const auto refuses = [&](const GenerateOptions& options) {
    EXPECT_THROW(generate_text(gpt_, tokenizer_, Texts{"a"}, options), ShapeError);
  };
  refuses({.tokens = 0});
  refuses({.copies = 0});
  refuses({.beam = 0});
  refuses({.beam = 2, .copies = 3});
  refuses({.batch_rows = 0});
  refuses({.sampling = {.top_p = -1}});
  EXPECT_THROW(generate_text(gpt_, ByteTokenizer(), Texts{"a"}), FormatError);
  EXPECT_THROW(generate_text(gpt_, tokenizer_, Texts{"\xff"}), FormatError);
}

TEST_F(Generating, ScoresOfTextsAreTheirLogProbabilities) {
  const Texts texts{"Hello", "", "z", "this is a text that is longer than the context of the model by far"};
  for (const int64_t batch_tokens : {1, 4096}) {
    const auto scores = score_texts(gpt_, tokenizer_, texts, {.batch_tokens = batch_tokens});
    ASSERT_EQ(scores.size(), 4u);
    EXPECT_EQ(scores[1].log_probabilities.size(), 0u);
    for (const size_t i : {0u, 2u, 3u}) {
      const auto ids = tokenizer_.encode(texts[i], false);
      ASSERT_EQ(scores[i].ids, ids);
      ASSERT_EQ(scores[i].log_probabilities.size(), ids.size());
      std::vector<int64_t> read{3};
      read.insert(read.end(), ids.begin(), ids.end());
      double total = 0;
      for (size_t place = 0; place < ids.size(); ++place) {
        // The window that scored this token: the first, or one shifted by multiples of half a context.
        const size_t begin = place < 24 ? 0 : (place - 24) / 12 * 12 + 12;
        const std::vector<int64_t> seen(read.begin() + static_cast<ptrdiff_t>(begin),
                                        read.begin() + static_cast<ptrdiff_t>(place) + 1);
        const auto logs =
            log_softmax(gpt_.head().logits(gpt_.hidden(tensor(seen, {1, std::ssize(seen)})))).to_vector<double>();
        const double expected = logs[logs.size() - 65 + static_cast<size_t>(ids[place])];
        EXPECT_NEAR(scores[i].log_probabilities[place], expected, 1e-3) << i << ' ' << place;
        total += expected;
      }
      EXPECT_NEAR(scores[i].log_probability, total, 1e-2);
    }
    double total = 0, words = 0;
    for (const TextScore& score : scores)
      total += score.log_probability, words += static_cast<double>(score.ids.size());
    EXPECT_NEAR(perplexity(scores), std::exp(-total / words), 1e-6);
  }
  EXPECT_EQ(perplexity({}), 1);
}

}  // namespace
}  // namespace attend
