// Models exported to Hugging Face format and read back.

#include "attend/hub/convert.h"

#include "attend/autograd/autograd.h"
#include "attend/generate/generate_text.h"
#include "attend/models/gpt.h"
#include "convert_testing.h"

namespace attend {
namespace {

using testing::small_tokenizer;
using testing::TemporaryFolder;

std::unique_ptr<Model> small_gpt(const Tokenizer& tokenizer, std::map<std::string, std::string> settings = {}) {
  settings.insert({{"dim", "16"}, {"layers", "2"}, {"heads", "2"}});
  return testing::random_model("gpt", tokenizer, settings);
}

std::vector<float> logits_of(const Model& model) {
  const NoGrad scope;
  const auto& language = dynamic_cast<const LanguageModel&>(model);
  return language.head().logits(language.hidden(tensor<int64_t>({5, 6, 7, 8, 9}, {1, 5}))).to_vector();
}

void expect_same_read_back(const std::string& to, const std::map<std::string, std::string>& settings) {
  SCOPED_TRACE(to);
  const TemporaryFolder folder;
  const auto tokenizer = small_tokenizer();
  const auto model = small_gpt(*tokenizer, settings);
  save_hub_model(*model, *tokenizer, to, folder.file("out"));
  const LoadedModel loaded = load_any_model(folder.file("out"));
  EXPECT_EQ(loaded.kind, to);
  EXPECT_TRUE(loaded.unused.empty());
  EXPECT_EQ(logits_of(*model), logits_of(*loaded.model));
  const auto again = load_tokenizer(folder.file("out"));
  EXPECT_EQ(again->special().end, tokenizer->special().end);
  const GenerateOptions options{.tokens = 12, .sampling = {.temperature = 0}};
  GenerateOptions theirs = options;
  theirs.rules = loaded.rules;  // transformers bans no tokens; ours bans special tokens
  const SpecialTokens& special = tokenizer->special();
  theirs.rules.banned = {special.pad, special.begin, special.mask, special.unknown};
  for (const std::string prompt : {"a dog", "一只", ""}) {
    EXPECT_EQ(generate_text(dynamic_cast<const LanguageModel&>(*model), *tokenizer, prompt, options),
              generate_text(dynamic_cast<const LanguageModel&>(*loaded.model), *again, prompt, theirs))
        << prompt;
  }
}

const std::map<std::string, std::string> kLlama{
    {"positions", "rotary"}, {"rms_norm", "yes"}, {"gated", "yes"}, {"bias", "no"}, {"activation", "silu"}};

std::map<std::string, std::string> llama_with(const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> result = more;
  result.insert(kLlama.begin(), kLlama.end());
  return result;
}

TEST(Convert, ReadBackItIsTheSame) {
  expect_same_read_back("gpt2", {});
  expect_same_read_back("gpt2", {{"tied", "no"}, {"ffn_dim", "24"}, {"activation", "relu"}, {"eps", "0.01"}});
  expect_same_read_back("llama", kLlama);
  expect_same_read_back("llama", llama_with({{"key_heads", "1"}, {"tied", "no"}, {"attention_bias", "all"}}));
  expect_same_read_back("llama",
                        llama_with({{"rope_scaling", "llama3"}, {"rope_factor", "8"}, {"rope_context", "64"}}));
  expect_same_read_back("mistral", llama_with({{"window", "3"}}));
  expect_same_read_back("qwen2", llama_with({{"attention_bias", "inputs"}}));
  expect_same_read_back("qwen3", llama_with({{"qk_norm", "yes"}, {"head_dim", "4"}}));
}

TEST(Convert, ListsTheTargetsForTheSettings) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(hub_targets(*small_gpt(*tokenizer)), std::vector<std::string>{"gpt2"});
  EXPECT_EQ(hub_targets(*small_gpt(*tokenizer, kLlama)), (std::vector<std::string>{"llama", "mistral"}));
  EXPECT_TRUE(hub_targets(*small_gpt(*tokenizer, {{"positions", "alibi"}})).empty());
  EXPECT_EQ(default_hub_target(*small_gpt(*tokenizer, kLlama)), "llama");
  testing::expect_error<Error>(
      [&] {
        default_hub_target(*small_gpt(*tokenizer, {{"positions", "alibi"}}));
      },
      "gpt2: this architecture does not support positions=alibi; a model trained with --positions learned can be "
      "exported");
}

TEST(Convert, RefusesByName) {
  const TemporaryFolder folder;
  const auto tokenizer = small_tokenizer();
  const auto refusal = [&](const std::string& to, const std::map<std::string, std::string>& settings) {
    try {
      save_hub_model(*small_gpt(*tokenizer, settings), *tokenizer, to, folder.file("out"));
      return std::string("nothing");
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal("gpt2", kLlama),
            "gpt2: this architecture does not support positions=rotary, rms_norm=yes, gated=yes, bias=no; a model "
            "trained with --positions learned --rms-norm no --gated no --bias yes can be exported");
  EXPECT_EQ(refusal("gpt2", {{"gated", "yes"}}),
            "gpt2: this architecture does not support gated=yes; a model trained with --gated no can be exported");
  EXPECT_EQ(refusal("gpt2", {{"key_heads", "1"}}),
            "gpt2: this architecture does not support key_heads=1; a model trained with --key-heads 0 can be exported");
  EXPECT_EQ(refusal("llama", llama_with({{"window", "5"}})),
            "llama: this architecture does not support window=5; a model trained with --window 0 can be exported");
  EXPECT_EQ(refusal("bert", {}), "bert: cannot export a model of architecture gpt to this architecture");
  EXPECT_TRUE(
      refusal("palm", {}).starts_with("convert: cannot export to architecture 'palm'; expected one of gpt2, llama"));
  std::filesystem::create_directories(folder.file("full/x"));
  testing::expect_error<Error>([&] { save_hub_model(*small_gpt(*tokenizer), *tokenizer, "gpt2", folder.file("full")); },
                               folder.file("full") + " already exists; choose another folder");
}

}  // namespace
}  // namespace attend
