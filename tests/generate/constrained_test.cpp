// Texts that are limited to a grammar while they are generated: greedy, sampled and beam search.
#include <gtest/gtest.h>

#include <cmath>

#include "attend/base/error.h"
#include "attend/generate/generate_text.h"
#include "attend/generate/search.h"
#include "attend/grammar/constraint.h"
#include "attend/grammar/json_schema.h"
#include "generate/byte_tokenizer.h"
#include "generate/engine.h"
#include "generate/tiny_models.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;
using Texts = std::vector<std::string>;

class ConstrainedText : public ::testing::Test {
 protected:
  std::shared_ptr<const Constraint> constraint(const char* schema) const {
    return Constraint::create(json_schema_grammar(Json::parse(schema)), trie_);
  }

  ByteTokenizer tokenizer_{128, 0};
  std::shared_ptr<const TokenTrie> trie_ = std::make_shared<const TokenTrie>(tokenizer_);
  std::unique_ptr<Model> model_ = tiny_model("gpt", tokenizer_.size(), {{"context", "64"}});
  const LanguageModel& gpt_ = dynamic_cast<const LanguageModel&>(*model_);
  std::shared_ptr<const Constraint> person_ = constraint(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},"age":{"type":"integer","minimum":10,
          "maximum":99},"ok":{"type":"boolean"}},"required":["name","age","ok"]})");
};

void expect_person(const GeneratedText& text) {
  EXPECT_EQ(text.ending, Ending::end) << text.text;
  const Json value = Json::parse(text.text);
  EXPECT_EQ(value.size(), 3U) << text.text;
  EXPECT_LE(value["name"].string().size(), 5U) << text.text;
  EXPECT_GE(value["age"].integer(), 10) << text.text;
  EXPECT_TRUE(value["ok"].is_boolean()) << text.text;
  EXPECT_TRUE(std::isfinite(text.log_probability));
}

TEST_F(ConstrainedText, GreedySampledAndBeamTextsFollowTheGrammar) {
  const Texts prompts{"Hello", "x"};
  for (const double temperature : {0.0, 1.0, 3.0}) {
    GenerateOptions options{
        .tokens = 200, .sampling = {.temperature = temperature}, .copies = 3, .constraint = person_};
    for (const GeneratedText& text : generate_text(gpt_, tokenizer_, prompts, options)) expect_person(text);
  }
  GenerateOptions options{.sampling = {.temperature = 1, .top_k = 3, .top_p = 0.9, .repetition_penalty = 1.2}};
  options.tokens = 200;
  options.constraint = person_;
  for (const GeneratedText& text : generate_text(gpt_, tokenizer_, prompts, options)) expect_person(text);
}

TEST_F(ConstrainedText, BeamsFollowTheGrammar) {
  const auto short_values = constraint(R"({"type":"array","items":{"enum":[1,22,"a"]},"minItems":1,"maxItems":3})");
  const GenerateOptions options{.tokens = 40, .beam = 4, .copies = 3, .constraint = short_values};
  const auto texts = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options);
  std::set<std::string> different;
  for (const GeneratedText& text : texts) {
    EXPECT_EQ(text.ending, Ending::end) << text.text;
    EXPECT_TRUE(Json::parse(text.text).is_array()) << text.text;
    different.insert(text.text);
  }
  EXPECT_EQ(different.size(), 3U);
}

TEST_F(ConstrainedText, LogProbabilitiesAreTheModelsOwn) {
  // One text is possible, so that its log-probability is that of the text without a constraint.
  const auto fixed = constraint(R"({"const":12})");
  GenerateOptions options{.tokens = 10, .sampling = {.temperature = 0}, .constraint = fixed};
  const GeneratedText text = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0];
  ASSERT_TRUE(text.text == "12" || text.text == " 12") << text.text;
  EXPECT_LT(text.log_probability, -0.1);  // not renormalised to certainty
}

TEST_F(ConstrainedText, TheMaximumLengthCutsAText) {
  GenerateOptions options{.tokens = 5, .sampling = {.temperature = 0}, .constraint = person_};
  const GeneratedText text = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0];
  EXPECT_EQ(text.ending, Ending::length);
  EXPECT_EQ(text.ids.size(), 5U);
}

TEST_F(ConstrainedText, AVocabularyWithoutEndTokensStopsAtTheEnd) {
  for (const int64_t beam : {int64_t{1}, int64_t{2}}) {
    GenerateOptions options{
        .tokens = 50, .beam = beam, .goes_past_end = true, .constraint = constraint(R"({"const":"ab"})")};
    const GeneratedText text = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0];
    EXPECT_TRUE(text.text == "\"ab\"" || text.text == " \"ab\"") << text.text;
    EXPECT_EQ(text.ending, Ending::end) << beam;
  }
}

TEST_F(ConstrainedText, NeighboursDoNotMatter) {
  GenerateOptions options{.tokens = 120, .sampling = {.temperature = 1, .seed = 3}, .constraint = person_};
  const Texts prompts{"Hello", "x", "abc def", "1"};
  const auto together = generate_text(gpt_, tokenizer_, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    options.first_index = static_cast<int64_t>(i);
    EXPECT_EQ(generate_text(gpt_, tokenizer_, Texts{prompts[i]}, options)[0].text, together[i].text);
  }
}

TEST_F(ConstrainedText, ABeamDropsHypothesesThatCannotBeContinued) {
  // The rules ban u: "true" is a dead end, "false" is not.
  GenerateOptions options{.tokens = 40, .beam = 4, .copies = 2, .constraint = constraint(R"({"enum":[true,false]})")};
  options.rules.banned = {5 + 'u'};
  std::set<std::string> different;
  for (const GeneratedText& text : generate_text(gpt_, tokenizer_, Texts{"Hello"}, options))
    different.insert(text.text);
  EXPECT_EQ(different, (std::set<std::string>{"false", " false"}));
  options.constraint = constraint(R"({"const":true})");
  EXPECT_THROW(generate_text(gpt_, tokenizer_, Texts{"Hello"}, options), ConstraintError);
}

TEST_F(ConstrainedText, ValuesThatTheVocabularyCannotWriteAreLeftOut) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer_.size()));
  for (size_t byte = 0; byte < 128; ++byte)
    bytes[5 + byte] = byte == 'x' ? "" : std::string(1, static_cast<char>(byte));
  const auto limited = Constraint::create(json_schema_grammar(Json::parse(R"({"enum":["ax","b"]})")),
                                          std::make_shared<const TokenTrie>(std::move(bytes)));
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const GenerateOptions options{.tokens = 40, .sampling = {.temperature = 3, .seed = seed}, .constraint = limited};
    const std::string text = generate_text(gpt_, tokenizer_, Texts{"Hello"}, options)[0].text;
    EXPECT_TRUE(text == "\"b\"" || text == " \"b\"") << text;
  }
  const GenerateOptions beam{.tokens = 40, .beam = 3, .constraint = limited};
  EXPECT_TRUE(generate_text(gpt_, tokenizer_, Texts{"Hello"}, beam)[0].text.ends_with("\"b\""));
}

TEST_F(ConstrainedText, AnErrorEndsOnlyItsSequence) {
  // The rules ban a token that the format needs: the text cannot be finished.
  const auto broken = constraint(R"({"const":true})");
  Engine engine(gpt_, {});
  const Vocabulary all = Vocabulary::of(tokenizer_, gpt_.vocab_size());
  Vocabulary without_u = all;
  without_u.banned.push_back(5 + 'u');
  int errors = 0, done = 0;
  for (const bool is_broken : {true, false}) {
    engine.add(
        {.prompt = {70, 71},
         .vocabulary = is_broken ? without_u : all,
         .options = {.ends_at_limit = false, .sampling = SamplingOptions{}, .constraint = is_broken ? broken : person_},
         .limit = 60,
         .on_done = [&](const std::vector<Hypothesis>&) { ++done; },
         .on_error =
             [&](const Error& error) {
               ++errors;
               EXPECT_NE(dynamic_cast<const ConstraintError*>(&error), nullptr);
               EXPECT_NE(std::string(error.what()).find("requested format"), std::string::npos);
             }});
  }
  while (engine.step()) {
  }
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace attend
