// Hugging Face folders on the command line.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "hub/hub_testing.h"
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

}  // namespace
}  // namespace attend
