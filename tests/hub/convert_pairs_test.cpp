// Encoder–decoder models exported to Hugging Face format and read back.

#include "attend/autograd/autograd.h"
#include "attend/generate/translate.h"
#include "attend/hub/convert.h"
#include "attend/io/safetensors.h"
#include "attend/models/transformer_model.h"
#include "convert_testing.h"

namespace attend {
namespace {

using testing::expect_error;
using testing::small_tokenizer;
using testing::TemporaryFolder;
using Settings = std::map<std::string, std::string>;

std::unique_ptr<Model> small_pair(const Tokenizer& tokenizer, Settings settings = {}) {
  settings.insert({{"dim", "12"},
                   {"heads", "2"},
                   {"ffn_dim", "20"},
                   {"encoder_layers", "2"},
                   {"decoder_layers", "1"},
                   {"context", "40"}});
  return testing::random_model("transformer", tokenizer, settings);
}

std::vector<double> logits_of(const Model& model) {
  const NoGrad scope;
  const auto& pair = dynamic_cast<const PairModel&>(model);
  const PairInputs inputs{.source = tensor<int64_t>({5, 6, 7, 8, 9, 3}, {1, 6}),
                          .source_lengths = {},
                          .target = tensor<int64_t>({2, 9, 7, 5}, {1, 4})};
  return pair.head().logits(pair.hidden(inputs)).to_vector<double>();
}

std::vector<std::string> texts_of(const Model& model, const Tokenizer& tokenizer, const SearchOptions& options) {
  const std::vector<std::string> lines{"a dog", "一只狗在公园里跑", "the park runs", "", "狗"};
  std::vector<std::string> texts;
  for (const TranslatedLine& line : translate(dynamic_cast<const PairModel&>(model), tokenizer, lines, options)) {
    for (const Translation& one : line.best) texts.push_back(one.text);
  }
  return texts;
}

void expect_same(const Model& model, const Tokenizer& tokenizer, const std::string& to) {
  SCOPED_TRACE(to);
  const TemporaryFolder folder;
  save_hub_model(model, tokenizer, to, folder.file("out"));
  const LoadedModel loaded = load_any_model(folder.file("out"));
  EXPECT_EQ(loaded.kind, to);
  EXPECT_TRUE(loaded.unused.empty()) << loaded.unused[0];
  const std::vector<double> ours = logits_of(model), theirs = logits_of(*loaded.model);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 1e-5);
  const auto again = load_tokenizer(folder.file("out"));
  EXPECT_EQ(again->encode("a dog 狗", true).back(), tokenizer.special().end);
  for (const int64_t beam : {1, 4}) {
    // An endless text is truncated at the same length, and a search stops at the same step.
    const SearchOptions options{.beam = beam, .n_best = beam, .max_length = 12};
    SearchOptions read = with_rules(options, loaded.rules);
    read.stop = options.stop;
    read.ends_at_limit = options.ends_at_limit;
    read.rules.forced_last = -1;
    EXPECT_EQ(texts_of(model, tokenizer, options), texts_of(*loaded.model, *again, read)) << beam;
  }
}

void expect_same(const Settings& settings, const std::string& to) {
  const auto tokenizer = small_tokenizer();
  expect_same(*small_pair(*tokenizer, settings), *tokenizer, to);
}

Settings t5_with(Settings more) {
  more.insert({{"positions", "relative"},
               {"norm_first", "yes"},
               {"rms_norm", "yes"},
               {"bias", "no"},
               {"scale_scores", "no"},
               {"scale_embedding", "no"},
               {"scale_output", "yes"}});
  return more;
}

// transformers accepts no other shape.
TEST(ConvertPairs, TheBiasOfTheOutputIsAMatrixOfOneRow) {
  const auto tokenizer = small_tokenizer();
  for (const char* to : {"marian", "bart"}) {
    const TemporaryFolder folder;
    const Settings settings{{"output_bias", "yes"}, {"embedding_norm", std::string(to) == "bart" ? "yes" : "no"}};
    save_hub_model(*small_pair(*tokenizer, settings), *tokenizer, to, folder.file("out"));
    const TensorInfo bias = SafetensorsFile::open(folder.file("out/model.safetensors")).info("final_logits_bias");
    EXPECT_EQ(bias.shape, (Shape{1, tokenizer->size()})) << to;
  }
}

TEST(ConvertPairs, Marian) {
  expect_same({}, "marian");
  expect_same({{"wave_halves", "yes"}}, "marian");
  expect_same({{"dim", "15"}, {"heads", "3"}}, "marian");  // an odd width has one more sine than cosines
  expect_same({{"tied", "no"}}, "marian");
  expect_same({{"shared", "no"}}, "marian");
  expect_same({{"shared", "no"}, {"tied", "no"}, {"output_bias", "yes"}}, "marian");
  expect_same({{"scale_embedding", "no"}, {"activation", "silu"}, {"decoder_heads", "4"}, {"decoder_ffn_dim", "8"}},
              "marian");
}

TEST(ConvertPairs, BartTakesAnyTableOfPositions) {
  for (const char* positions : {"learned", "sinusoidal", "none"}) {
    expect_same({{"embedding_norm", "yes"}, {"positions", positions}}, "bart");
  }
  expect_same({{"embedding_norm", "yes"}, {"tied", "no"}, {"output_bias", "yes"}, {"activation", "gelu"}}, "bart");
}

TEST(ConvertPairs, NormsBeforeEachBranch) {
  expect_same({{"norm_first", "yes"}}, "pegasus");
  expect_same({{"norm_first", "yes"}, {"tied", "no"}, {"wave_halves", "yes"}}, "pegasus");
  expect_same({{"norm_first", "yes"}, {"embedding_norm", "yes"}}, "mbart");
  expect_same({{"norm_first", "yes"}, {"embedding_norm", "yes"}, {"positions", "learned"}}, "mbart");
}

TEST(ConvertPairs, T5) {
  expect_same(t5_with({}), "t5");
  expect_same(t5_with({{"gated", "yes"}, {"activation", "gelu_tanh"}, {"head_dim", "5"}}), "t5");
  expect_same(t5_with({{"gated", "yes"}, {"activation", "silu"}, {"buckets", "6"}, {"max_distance", "9"}}), "t5");
  expect_same(t5_with({{"tied", "no"}, {"scale_output", "no"}, {"activation", "gelu"}, {"eps", "0.01"}}), "t5");
}

TEST(ConvertPairs, EveryKindOfTokenizer) {
  for (const TokenizerKind kind : {TokenizerKind::words, TokenizerKind::bpe, TokenizerKind::wordpiece}) {
    const auto tokenizer = small_tokenizer({.kind = kind, .vocabulary = 300, .min_count = 1});
    expect_same(*small_pair(*tokenizer), *tokenizer, "marian");
  }
  const auto tokenizer = small_tokenizer({.kind = TokenizerKind::sentencepiece, .vocabulary = 290});
  expect_same(*small_pair(*tokenizer), *tokenizer, "marian");
}

TEST(ConvertPairs, ChoosesTheTargetForTheSettings) {
  const auto tokenizer = small_tokenizer();
  const auto target = [&](const Settings& settings) { return default_hub_target(*small_pair(*tokenizer, settings)); };
  EXPECT_EQ(target({}), "marian");
  EXPECT_EQ(target({{"embedding_norm", "yes"}}), "bart");
  EXPECT_EQ(target({{"norm_first", "yes"}}), "pegasus");
  EXPECT_EQ(target({{"norm_first", "yes"}, {"embedding_norm", "yes"}}), "mbart");
  EXPECT_EQ(target(t5_with({})), "t5");
  expect_error<Error>(
      [&] {
        target({{"positions", "rotary"}, {"gated", "yes"}, {"key_heads", "1"}});
      },
      "marian: this architecture does not support gated=yes, key_heads=1, positions=rotary; a model trained with "
      "--gated no --key-heads 0 --positions sinusoidal can be exported");
  expect_error<Error>([&] { default_hub_target(*testing::random_model("rnn", *tokenizer, {})); },
                      "architecture rnn cannot be exported to Hugging Face format; transformer, gpt and encoder can");
}

TEST(ConvertPairs, RefusesEachSettingByName) {
  const TemporaryFolder folder;
  const auto tokenizer = small_tokenizer();
  const auto refusal = [&](const std::string& to, const Settings& settings) -> std::string {
    try {
      save_hub_model(*small_pair(*tokenizer, settings), *tokenizer, to, folder.file("out"));
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
      const std::string what = error.what(), mark = "this architecture does not support ";
      const size_t begin = what.find(mark);
      return begin == std::string::npos ? what : what.substr(begin + mark.size(), what.find(';') - begin - mark.size());
    }
    return "nothing";
  };
  EXPECT_EQ(refusal("marian", {{"rms_norm", "yes"}}), "rms_norm=yes");
  EXPECT_EQ(refusal("marian", {{"bias", "no"}}), "bias=no");
  EXPECT_EQ(refusal("marian", {{"eps", "0.001"}}), "eps=0.001");
  EXPECT_EQ(refusal("marian", {{"scale_scores", "no"}}), "scale_scores=no");
  EXPECT_EQ(refusal("marian", {{"scale_output", "yes"}}), "scale_output=yes");
  EXPECT_EQ(refusal("marian", {{"head_dim", "4"}}), "head_dim=4");
  EXPECT_EQ(refusal("marian", {{"norm_first", "yes"}}), "norm_first=yes");
  EXPECT_EQ(refusal("marian", {{"embedding_norm", "yes"}}), "embedding_norm=yes");
  EXPECT_EQ(refusal("bart", {}), "embedding_norm=no");
  EXPECT_EQ(refusal("bart", {{"embedding_norm", "yes"}, {"shared", "no"}}), "shared=no");
  EXPECT_EQ(refusal("bart", {{"embedding_norm", "yes"}, {"positions", "alibi"}}), "positions=alibi");
  EXPECT_EQ(refusal("t5", t5_with({{"gated", "yes"}, {"activation", "gelu"}})), "activation=gelu");
  EXPECT_EQ(refusal("t5", t5_with({{"tied", "no"}})), "scale_output=yes");
}

TEST(ConvertPairs, WritesGenerationSettings) {
  const TemporaryFolder folder;
  const auto tokenizer = small_tokenizer();
  save_hub_model(*small_pair(*tokenizer), *tokenizer, "marian", folder.file("out"));
  const auto read = [&](const char* name) {
    return nlohmann::json::parse(std::ifstream(folder.file(std::string("out/") + name)));
  };
  const auto generation = read("generation_config.json");
  EXPECT_EQ(generation["decoder_start_token_id"], tokenizer->special().begin);
  EXPECT_EQ(generation["eos_token_id"], tokenizer->special().end);
  EXPECT_EQ(generation["forced_eos_token_id"], tokenizer->special().end);
  EXPECT_EQ(generation["pad_token_id"], tokenizer->special().pad);
  EXPECT_EQ(generation["bad_words_ids"], nlohmann::json::parse("[[0], [2], [4], [1]]"));
  EXPECT_EQ(generation["max_length"], 40);
  const auto config = read("tokenizer_config.json");
  EXPECT_EQ(config["model_input_names"], nlohmann::json::parse(R"(["input_ids", "attention_mask"])"));
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_TRUE(config["split_special_tokens"]);
}

}  // namespace
}  // namespace attend
