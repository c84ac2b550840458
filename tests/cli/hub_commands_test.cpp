// Hugging Face folders on the command line.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "hub/convert_testing.h"
#include "testing/process.h"

namespace attend {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::TemporaryFolder;

Finished attend_command(std::vector<std::string> words) {
  words.insert(words.begin(), std::string(ATTEND_BINARY_DIR) + "/attend");
  return testing::run(words);
}

/// A GPT-2 of eleven words, with as many letters as its tokenizer.
void save_gpt2(const std::string& folder, int letters) {
  testing::tiny_gpt2().save(folder);
  json vocabulary;
  for (int i = 0; i < letters; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = i;
  std::ofstream(folder + "/tokenizer.json")
      << json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

TEST(HubCommands, GenerateScoreInfoAndConvert) {
  const TemporaryFolder folder;
  save_gpt2(folder.file("m"), 11);
  const Finished text = attend_command({"generate", folder.file("m"), "abc", "--greedy", "--tokens", "5"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("abc")) << text.out;
  EXPECT_EQ(attend_command({"score", folder.file("m"), "abcd"}).code, 0);
  const Finished info = attend_command({"info", folder.file("m"), "--json"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(json::parse(info.out)["kind"], "gpt2");
  const Finished converted = attend_command({"convert", folder.file("m"), "-o", folder.file("ours")});
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_EQ(converted.out, "Wrote " + folder.file("ours") + " (attend)\n");
  const Finished back = attend_command({"convert", folder.file("ours"), "-o", folder.file("theirs")});
  EXPECT_EQ(back.out, "Wrote " + folder.file("theirs") + " (gpt2)\n") << back.err;
  EXPECT_EQ(attend_command({"generate", folder.file("theirs"), "abc", "--greedy", "--tokens", "5"}).out, text.out);
}

TEST(HubCommands, InfoTellsWhatIsNotUsed) {
  const TemporaryFolder folder;
  auto files = testing::tiny_gpt2();
  files.tensors["adapter.weight"] = ones({3});
  save_gpt2(folder.path(), 11);
  files.save(folder.path());
  const Finished info = attend_command({"info", folder.path()});
  EXPECT_NE(info.out.find("adapter.weight"), std::string::npos) << info.out;
}

TEST(HubCommands, VocabulariesMustFit) {
  const TemporaryFolder folder;
  save_gpt2(folder.path(), 12);
  const Finished run = attend_command({"generate", folder.path(), "a"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.err, "attend: " + folder.path() + ": the tokenizer has 12 tokens, but the model only 11 words\n");
}

TEST(HubCommands, UnknownArchitecturesAndPickles) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("config.json")) << R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"]})";
  const Finished unknown = attend_command({"generate", folder.path(), "a"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(
      unknown.err.find("architecture 'MambaForCausalLM' (model_type 'mamba') is not supported; there are gpt2, llama"),
      std::string::npos)
      << unknown.err;
  EXPECT_EQ(std::ranges::count(unknown.err, '\n'), 1);
}

void save_ours(const std::string& architecture, const std::map<std::string, std::string>& settings,
               const std::string& folder) {
  const auto tokenizer = testing::small_tokenizer();
  save_model(*testing::random_model(architecture, *tokenizer, settings), folder);
  tokenizer->save(folder);
}

TEST(HubCommands, TranslatorsOfOursAreConverted) {
  const TemporaryFolder folder;
  save_ours("transformer", {{"dim", "16"}, {"norm_first", "yes"}}, folder.file("m"));
  const Finished converted = attend_command({"convert", folder.file("m"), "-o", folder.file("theirs")});
  EXPECT_EQ(converted.out, "Wrote " + folder.file("theirs") + " (pegasus)\n") << converted.err;
  const auto translated = [&](const std::string& model, const char* longest = "7") {
    return attend_command({"translate", model, "a dog", "--max-length", longest, "--beam", "1"}).out;
  };
  EXPECT_EQ(translated(folder.file("m"), "6"), translated(folder.file("theirs"))) << "there the end counts, too";
  EXPECT_EQ(attend_command({"convert", folder.file("theirs"), "-o", folder.file("back")}).code, 0);
  EXPECT_EQ(translated(folder.file("theirs")), translated(folder.file("back"))) << "with its rules";
}

TEST(HubCommands, WhatCannotBeConvertedIsSaidInOneLine) {
  const TemporaryFolder folder;
  save_ours("encoder", {{"dim", "16"}, {"labels", R"(["a", "b"])"}}, folder.file("m"));
  const Finished refused = attend_command({"convert", folder.file("m"), "-o", folder.file("theirs")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err,
            "attend: " + folder.file("m") +
                ": bert: this architecture has no norm_first=yes, pooling=mean, pooler=none; a model trained with "
                "--norm-first no --pooling first --pooler tanh can be written\n");
  EXPECT_FALSE(std::filesystem::exists(folder.file("theirs")));
}

TEST(HubCommands, TasksOfATranslator) {
  const TemporaryFolder folder;
  save_ours("transformer", {{"dim", "16"}}, folder.file("m"));
  ASSERT_EQ(attend_command({"convert", folder.file("m"), "-o", folder.file("hf")}).code, 0);
  json config = json::parse(std::ifstream(folder.file("hf/config.json")));
  config["task_specific_params"] = {{"translation_a", {{"prefix", "the "}}}, {"translation_b", {{"prefix", "park "}}}};
  std::ofstream(folder.file("hf/config.json")) << config;
  const auto translated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"translate", folder.file("hf"), "a dog", "--max-length", "8", "--scores"};
    words.insert(words.end(), more.begin(), more.end());
    return attend_command(words);
  };
  const Finished open = translated({});
  EXPECT_EQ(open.code, 0);
  EXPECT_EQ(open.err,
            "attend: " + folder.file("hf") + " has several tasks; --task says which: translation_a, translation_b\n");
  const Finished chosen = translated({"--task", "translation_b"});
  EXPECT_EQ(chosen.err, "");
  EXPECT_EQ(chosen.out, translated({"--prefix", "park "}).out);
  EXPECT_NE(chosen.out, open.out);
  const Finished none = translated({"--task", "poetry"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.err, "attend: " + folder.file("hf") +
                          ": there is no task 'poetry'; there are 'translation_a', 'translation_b'\n");
}

}  // namespace
}  // namespace attend
