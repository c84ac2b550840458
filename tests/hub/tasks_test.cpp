// Generation settings of a folder, for all texts and for specific tasks.

#include "hub_testing.h"

namespace attend {
namespace {

using testing::TemporaryFolder;

LoadedModel loaded_with(const nlohmann::json& more, const nlohmann::json& generation = nlohmann::json::object()) {
  const TemporaryFolder folder;
  testing::HubFiles files = testing::tiny_gpt2();
  files.config.update(more);
  files.save(folder.path());
  std::ofstream(folder.file("generation_config.json")) << generation;
  return load_hub_model(folder.path());
}

const nlohmann::json kNothing = nlohmann::json::object();
const nlohmann::json kGerman{{"prefix", "to German: "}, {"num_beams", 4}, {"early_stopping", true}},
    kFrench{{"prefix", "to French: "}, {"max_length", 30}}, kSummary{{"prefix", "summarize: "}, {"min_length", 5}};

TEST(Tasks, OverrideTheFoldersSettings) {
  const LoadedModel loaded =
      loaded_with({{"task_specific_params", {{"translation_en_to_de", kGerman}, {"summarization", kSummary}}}},
                  {{"num_beams", 2}, {"eos_token_id", 7}});
  ASSERT_EQ(loaded.tasks.size(), 2u);
  const GenerationRules& german = rules_for(loaded.tasks, "translation_en_to_de");
  EXPECT_EQ(german.prefix, "to German: ");
  EXPECT_EQ(german.beam, 4);
  EXPECT_EQ(german.early_stopping, EarlyStopping::eager);
  EXPECT_EQ(german.ends, std::vector<int32_t>{7});
  EXPECT_EQ(rules_for(loaded.tasks, "summarization").beam, 2);
  EXPECT_EQ(rules_for(loaded.tasks, "summarization").min_length, 5);
}

TEST(Tasks, TheOnlyTranslationNeedsNoName) {
  EXPECT_EQ(loaded_with({{"task_specific_params", {{"translation_en_to_de", kGerman}, {"summarization", kSummary}}}})
                .rules.prefix,
            "to German: ");
  EXPECT_EQ(
      loaded_with({{"task_specific_params", {{"translation_en_to_de", kGerman}, {"translation_en_to_fr", kFrench}}}})
          .rules.prefix,
      "");
  EXPECT_EQ(
      loaded_with({{"prefix", "mine: "}, {"task_specific_params", {{"translation_en_to_de", kGerman}}}}).rules.prefix,
      "mine: ");
  EXPECT_EQ(loaded_with({{"task_specific_params", {{"summarization", kSummary}}}}).rules.prefix, "");
}

TEST(Tasks, AnUnknownNameListsTheTasks) {
  const LoadedModel loaded = loaded_with({{"task_specific_params", {{"b", kGerman}, {"a", kSummary}}}});
  testing::expect_error<Error>([&] { rules_for(loaded.tasks, "c"); }, "unknown task 'c'; expected one of 'a', 'b'");
  testing::expect_error<Error>([&] { rules_for({}, "c"); }, "unknown task 'c'; the model has no tasks");
}

TEST(Tasks, DamagedOnesAreRefused) {
  const auto complaint = [](const nlohmann::json& value) {
    const TemporaryFolder folder;
    testing::HubFiles files = testing::tiny_gpt2();
    files.config["task_specific_params"] = value;
    files.save(folder.path());
    return testing::complaint_about(folder.path());
  };
  EXPECT_EQ(complaint({1, 2}), "config.json: 'task_specific_params' must be an object, got [1,2]");
  EXPECT_EQ(complaint({{"a", 3}}), "config.json: 'a' must be an object, got 3");
  EXPECT_EQ(complaint({{"a", {{"num_beams", -1}}}}).substr(0, 12), "config.json:");
}

TEST(Tasks, EarlyStopping) {
  EXPECT_EQ(loaded_with(kNothing, {{"early_stopping", "never"}}).rules.early_stopping, EarlyStopping::never);
  EXPECT_EQ(loaded_with(kNothing, {{"early_stopping", true}}).rules.early_stopping, EarlyStopping::eager);
  const GenerationRules usual = loaded_with(kNothing, {{"early_stopping", false}}).rules;
  EXPECT_EQ(usual.early_stopping, EarlyStopping::likely);
  const TemporaryFolder folder;
  testing::tiny_gpt2().save(folder.path());
  std::ofstream(folder.file("generation_config.json")) << R"({"early_stopping": "sometimes"})";
  EXPECT_EQ(testing::complaint_about(folder.path()),
            "generation_config.json: 'early_stopping': \"sometimes\" is not supported, only \"never\"");
  save_generation_rules({.early_stopping = EarlyStopping::never}, folder.path());
  EXPECT_EQ(load_hub_model(folder.path()).rules.early_stopping, EarlyStopping::never);
}

}  // namespace
}  // namespace attend
