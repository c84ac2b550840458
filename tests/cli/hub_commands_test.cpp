// Hugging Face folders on the command line.

#include <gtest/gtest.h>

#include <cmath>
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

/// Saves a GPT-2 with a vocabulary of eleven, and a tokenizer with `letters` letters.
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

/// bf16 matrices are kept in bf16, and give the same numbers as after conversion to f32, to the last digit.
TEST(HubCommands, Bf16FilesGiveTheNumbersOfF32) {
  const TemporaryFolder folder;
  save_gpt2(folder.path(), 11);
  auto files = testing::tiny_gpt2();
  for (auto& [name, tensor] : files.tensors) tensor = to(tensor, DType::bf16);
  files.save(folder.path());
  std::ofstream(folder.file("text")) << "abcdefghijkabcabdcahgbahdgcabdhagh\nbcabcahdgbca\n";
  const std::string model = folder.path();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", model, "abcabdgahbdcag", "--greedy", "--tokens", "8", "--json"},
        {"score", model, "abcabdgahbdcagabcgdhabd", "--json"},
        {"score", model, "ab", "--json"},
        {"evaluate", model, folder.file("text"), "--json"},
        {"embed", model, "abcabdgahbdcagabdchagbdcagdb", "a"}}) {
    std::vector<std::string> widened = words;
    widened.insert(widened.end(), {"--dtype", "f32"});
    const Finished ours = attend_command(words), exact = attend_command(widened);
    EXPECT_EQ(ours.code, 0) << ours.err;
    json left = json::parse(ours.out, nullptr, false), right = json::parse(exact.out, nullptr, false);
    if (left.is_discarded()) {
      EXPECT_EQ(ours.out, exact.out) << words[0];
      continue;
    }
    for (const char* timing : {"seconds", "tokens_per_second"}) left.erase(timing), right.erase(timing);
    EXPECT_EQ(left, right) << words[0];
  }
  const auto inspected = [&](const std::string& source) {
    const Finished run = attend_command({"inspect", source, "abcabdgahbdcag", "-o", folder.file("run.json")});
    EXPECT_EQ(run.code, 0) << run.err;
    return json::parse(testing::file_text(folder.file("run.json")));
  };
  const json kept = inspected(model);
  for (auto& [name, tensor] : files.tensors) tensor = to(tensor, DType::f32);
  files.save(model);
  for (const json& change : json::diff(kept, inspected(model))) {
    EXPECT_TRUE(change["path"].get<std::string>().ends_with("/milliseconds")) << change;
  }
}

TEST(HubCommands, InfoNeedsNoTokenizer) {
  const TemporaryFolder folder;
  save_gpt2(folder.path(), 11);
  std::filesystem::remove(folder.file("tokenizer.json"));
  const Finished info = attend_command({"info", folder.path()});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_NE(info.out.find("expected a tokenizer: tokenizer.json"), std::string::npos) << info.out;
  EXPECT_EQ(attend_command({"generate", folder.path(), "abc"}).code, 1);
}

TEST(HubCommands, TheModelInASubfolderOfASentenceTransformerIsFound) {
  const TemporaryFolder folder;
  save_gpt2(folder.file("0_Transformer"), 11);
  std::ofstream(folder.file("modules.json"))
      << R"([{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}])";
  const Finished info = attend_command({"info", folder.path(), "--json"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(json::parse(info.out)["kind"], "gpt2");
  EXPECT_EQ(attend_command({"inspect", folder.path(), "abc", "-o", folder.file("x.json")}).code, 0);
}

TEST(HubCommands, InfoListsUnusedWeights) {
  const TemporaryFolder folder;
  auto files = testing::tiny_gpt2();
  files.tensors["adapter.weight"] = ones({3});
  save_gpt2(folder.path(), 11);
  files.save(folder.path());
  const Finished info = attend_command({"info", folder.path()});
  EXPECT_NE(info.out.find("adapter.weight"), std::string::npos) << info.out;
}

TEST(HubCommands, InfoListsConfigValuesThatAreNotFollowed) {
  const TemporaryFolder folder;
  auto files = testing::tiny_gpt2();
  files.config["tie_word_embeddings"] = false;
  save_gpt2(folder.path(), 11);
  files.save(folder.path());
  std::ofstream(folder.file("generation_config.json")) << R"({"penalty_alpha": 0.6})";
  const Finished info = attend_command({"info", folder.path()});
  EXPECT_NE(info.out.find("'tie_word_embeddings' is false, but the weights have no output matrix"), std::string::npos);
  EXPECT_NE(info.out.find("the generation setting 'penalty_alpha' is not supported and ignored"), std::string::npos);
  EXPECT_EQ(json::parse(attend_command({"info", folder.path(), "--json"}).out)["notes"].size(), 2u);
}

/// The continuation of "abc" that `generate` prints, and its standard error.
struct Written {
  std::string text, err;
  int64_t tokens = 0;
};
Written written(const std::string& folder, std::vector<std::string> options) {
  options.insert(options.begin(), {"generate", folder, "abc", "--json"});
  const Finished run = attend_command(options);
  EXPECT_EQ(run.code, 0) << run.err;
  const json line = json::parse(run.out);
  return {line["text"], run.err, line["tokens"]};
}

TEST(HubCommands, OptionsOverrideTheFoldersGenerationConfig) {
  const TemporaryFolder folder;
  save_gpt2(folder.path(), 11);
  const auto says = [&](const json& rules) { std::ofstream(folder.file("generation_config.json")) << rules.dump(); };
  const Written plain = written(folder.path(), {"--greedy", "--tokens", "8"});
  EXPECT_EQ(plain.err, "");
  says({{"no_repeat_ngram_size", 1}, {"max_new_tokens", 6}});
  const Written once = written(folder.path(), {"--greedy"});
  EXPECT_EQ(once.tokens, 6);
  std::string all = "abc" + once.text;
  std::erase(all, ' ');
  for (const char letter : all) EXPECT_EQ(all.find(letter), all.rfind(letter)) << all;
  EXPECT_EQ(written(folder.path(), {"--greedy", "--tokens", "3"}).tokens, 3);
  says({{"max_length", 7}});
  EXPECT_EQ(written(folder.path(), {"--greedy"}).tokens, 4);
  says({{"repetition_penalty", 1.9}});
  const std::vector<std::string> drawn{"--top-k", "1", "--tokens", "8"};
  const std::string penalized = written(folder.path(), drawn).text;
  EXPECT_EQ(written(folder.path(), {"--greedy", "--tokens", "8"}).text, penalized);
  std::vector<std::string> without = drawn;
  without.insert(without.end(), {"--repetition-penalty", "1"});
  EXPECT_EQ(written(folder.path(), without).text, plain.text);
  says({{"num_beams", 3}, {"max_new_tokens", 8}, {"diversity_penalty", 0.5}, {"num_beam_groups", 3}});
  const Written beam = written(folder.path(), {});
  EXPECT_EQ(beam.text, written(folder.path(), {"--beam", "3"}).text);
  EXPECT_EQ(written(folder.path(), {"--greedy"}).text, plain.text);
  EXPECT_EQ(written(folder.path(), {"--beam", "1"}).text, plain.text);
  EXPECT_EQ(beam.err, "attend: " + folder.path() +
                          ": unsupported generation settings are ignored: num_beam_groups, diversity_penalty\n");
  EXPECT_EQ(attend_command({"generate", folder.path(), "a", "--beam", "2", "--top-k", "1"}).code, 2);
  EXPECT_EQ(attend_command({"generate", folder.path(), "a", "--beam", "2", "--count", "3"}).code, 2);
}

TEST(HubCommands, DamagedWeightsAreOneLine) {
  const TemporaryFolder folder;
  auto files = testing::tiny_gpt2();
  save_gpt2(folder.path(), 11);
  Tensor& words = files.tensors["transformer.wte.weight"];
  words = words.clone();
  words.data<float>()[8 * 10] = NAN;  // the embedding of a token that does not occur
  files.save(folder.path());
  for (const char* command : {"generate", "score"}) {
    const Finished run = attend_command({command, folder.path(), "abc"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err, std::string("attend: ") + command + ": the model computed NaN: its weights are damaged\n");
  }
  for (const char* kind : {"x.png", "x.svg", "x.json"}) {
    const Finished drawn = attend_command({"inspect", folder.path(), "abc", "-o", folder.file(kind)});
    EXPECT_EQ(drawn.code, 1);
    EXPECT_EQ(drawn.err, "attend: inspect: the model computed NaN: its weights are damaged\n");
    EXPECT_FALSE(std::filesystem::exists(folder.file(kind)));
  }
  const Finished converted = attend_command({"convert", folder.path(), "-o", folder.file("ours")});
  EXPECT_EQ(converted.code, 1);
  EXPECT_EQ(converted.err,
            "attend: " + folder.path() +
                ": parameter embedding.weight contains NaN or infinity: the weights are damaged; nothing "
                "was written\n");
  EXPECT_FALSE(std::filesystem::exists(folder.file("ours")));
}

TEST(HubCommands, TheTokenizerMustNotExceedTheModelsVocabulary) {
  const TemporaryFolder folder;
  save_gpt2(folder.path(), 12);
  const Finished run = attend_command({"generate", folder.path(), "a"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.err, "attend: " + folder.path() + ": the tokenizer has 12 tokens, but the model's vocabulary has 11\n");
}

TEST(HubCommands, UnknownArchitecturesAndPickles) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("config.json")) << R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"]})";
  const Finished unknown = attend_command({"generate", folder.path(), "a"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(
      unknown.err.find(
          "architecture 'MambaForCausalLM' (model_type 'mamba') is not supported; supported model types: gpt2, llama"),
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

TEST(HubCommands, TrainedTranslatorsAreConverted) {
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

TEST(HubCommands, ConversionErrorsAreOneLine) {
  const TemporaryFolder folder;
  save_ours("encoder", {{"dim", "16"}, {"labels", R"(["a", "b"])"}}, folder.file("m"));
  const Finished refused = attend_command({"convert", folder.file("m"), "-o", folder.file("theirs")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err,
            "attend: " + folder.file("m") +
                ": bert: this architecture does not support norm_first=yes, pooling=mean, pooler=none; a model trained "
                "with --norm-first no --pooling first --pooler tanh can be exported\n");
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
  EXPECT_EQ(open.err, "attend: " + folder.file("hf") +
                          " has several tasks; choose one with --task: translation_a, translation_b\n");
  const Finished chosen = translated({"--task", "translation_b"});
  EXPECT_EQ(chosen.err, "");
  EXPECT_EQ(chosen.out, translated({"--prefix", "park "}).out);
  EXPECT_NE(chosen.out, open.out);
  const Finished none = translated({"--task", "poetry"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(
      none.err,
      "attend: --task: " + folder.file("hf") +
          ": unknown task 'poetry'; expected one of 'translation_a', 'translation_b'; see attend translate --help\n");
}

}  // namespace
}  // namespace attend
