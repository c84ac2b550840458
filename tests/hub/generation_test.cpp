// generation_config.json, read and written.

#include "hub/generation.h"

#include "hub_testing.h"

namespace attend {
namespace {

using hub::generation_rules;
using hub::HubConfig;
using hub::rules_json;
using nlohmann::json;
using testing::expect_error;
using testing::TemporaryFolder;

GenerationRules rules_of(const json& own, const json& config = json::object()) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("generation_config.json")) << own.dump();
  return generation_rules(folder.path(), HubConfig(config.dump(), "config.json"));
}

const json kAll{{"decoder_start_token_id", 1},
                {"eos_token_id", {2, 7}},
                {"forced_bos_token_id", 4},
                {"forced_eos_token_id", 2},
                {"bad_words_ids", {{5}, {2}, {8, 9}}},
                {"suppress_tokens", {6, 7}},
                {"begin_suppress_tokens", {3, 2}},
                {"num_beams", 4},
                {"max_length", 50},
                {"max_new_tokens", 40},
                {"min_length", 3},
                {"min_new_tokens", 2},
                {"no_repeat_ngram_size", 3},
                {"encoder_no_repeat_ngram_size", 5},
                {"repetition_penalty", 1.25},
                {"renormalize_logits", true},
                {"length_penalty", -0.5},
                {"early_stopping", "never"}};

TEST(GenerationConfig, EveryKey) {
  const GenerationRules rules = rules_of(kAll);
  EXPECT_TRUE(rules.as_transformers);
  EXPECT_EQ(rules.start, 1);
  EXPECT_EQ(rules.ends, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(rules.forced_first, 4);
  EXPECT_EQ(rules.forced_last, 2);
  EXPECT_EQ(rules.banned, (std::vector<int32_t>{5, 6, 7}));  // an end is no bad word, but may be suppressed
  EXPECT_EQ(rules.banned_runs, (std::vector<std::vector<int32_t>>{{8, 9}}));
  EXPECT_EQ(rules.banned_first, (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(rules.beam, 4);
  EXPECT_EQ(rules.max_length, 50);
  EXPECT_EQ(rules.max_new, 40);
  EXPECT_EQ(rules.min_length, 3);
  EXPECT_EQ(rules.min_new, 2);
  EXPECT_EQ(rules.no_repeat, 3);
  EXPECT_EQ(rules.no_repeat_source, 5);
  EXPECT_EQ(rules.repetition_penalty, 1.25);
  EXPECT_TRUE(rules.renormalizes);
  EXPECT_EQ(rules.length_penalty, -0.5);
  EXPECT_EQ(rules.early_stopping, EarlyStopping::never);
  EXPECT_TRUE(rules.unfollowed.empty());
  EXPECT_EQ(rules_json(rules_of(json::parse(rules_json(rules).dump()))), rules_json(rules));
}

TEST(GenerationConfig, OlderFoldersHaveTheKeysInTheConfig) {
  EXPECT_EQ(rules_json(rules_of(json::object(), kAll)), rules_json(rules_of(kAll)));
  EXPECT_EQ(rules_of({{"num_beams", 2}}, kAll).beam, 2);
  EXPECT_EQ(rules_of({{"early_stopping", true}}).early_stopping, EarlyStopping::eager);
  EXPECT_EQ(rules_of(json::object()).early_stopping, EarlyStopping::likely);
}

TEST(GenerationConfig, ListsUnsupportedKeys) {
  const json usual{{"num_beam_groups", 1},
                   {"diversity_penalty", 0.0},
                   {"sequence_bias", nullptr},
                   {"penalty_alpha", nullptr},
                   {"guidance_scale", 1.0},
                   {"encoder_repetition_penalty", 1.0},
                   {"force_words_ids", nullptr},
                   {"token_healing", false},
                   {"do_sample", true},
                   {"temperature", 0.7},
                   {"top_k", 20},
                   {"top_p", 0.8}};
  EXPECT_TRUE(rules_of(usual).unfollowed.empty());
  EXPECT_EQ(rules_of({{"num_beam_groups", 2}, {"diversity_penalty", 0.5}}, {{"penalty_alpha", 0.6}}).unfollowed,
            (std::vector<std::string>{"num_beam_groups", "diversity_penalty", "penalty_alpha"}));
  EXPECT_EQ(rules_of({{"sequence_bias", {{{1, 2}, -1.0}}}, {"token_healing", true}}).unfollowed,
            (std::vector<std::string>{"sequence_bias", "token_healing"}));
}

TEST(GenerationConfig, RefusesByName) {
  const auto said = [](const json& own) -> std::string {
    try {
      rules_of(own);
      return "nothing";
    } catch (const FormatError& error) {
      const std::string what = error.what();
      return what.substr(what.find("generation_config.json"));
    }
  };
  EXPECT_EQ(said({{"num_beams", 1001}}),
            "generation_config.json: 'num_beams' must be a whole number from 0 to 1000, got 1001");
  EXPECT_EQ(said({{"repetition_penalty", 0}}),
            "generation_config.json: 'repetition_penalty' must be a number from 0.001 to 1000, got 0");
  EXPECT_EQ(said({{"bad_words_ids", {5}}}),
            "generation_config.json: 'bad_words_ids' must be a list of lists of token ids");
  EXPECT_EQ(said({{"bad_words_ids", {json::array()}}}),
            "generation_config.json: 'bad_words_ids' must be a list of lists of token ids");
  EXPECT_EQ(said({{"early_stopping", "often"}}),
            "generation_config.json: 'early_stopping': \"often\" is not supported, only \"never\"");
  EXPECT_EQ(said({{"renormalize_logits", 1}}),
            "generation_config.json: 'renormalize_logits' must be true or false, got 1");
}

}  // namespace
}  // namespace attend
