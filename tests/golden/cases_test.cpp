// Fails if a reference case is missing from the repository.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace attend {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = ATTEND_SOURCE_DIR "/tests/golden/cases";

TEST(GoldenCases, EveryOpHasOne) {
  std::set<std::string> ops;
  for (const auto& entry : fs::directory_iterator(kCases / "ops")) {
    const std::string name = entry.path().filename();
    ops.insert(name.substr(0, name.find("__")));
  }
  for (const char* op : {"activation",
                         "attention",
                         "bahdanau_attention",
                         "clip_grad_norm",
                         "cross_entropy",
                         "embedding",
                         "gru",
                         "layer_norm",
                         "linear",
                         "lstm",
                         "multihead_attention",
                         "optimizer",
                         "positional_encoding",
                         "rms_norm",
                         "rnn",
                         "rope",
                         "schedule",
                         "self_attention_block",
                         "transformer",
                         "transformer_decoder_layer",
                         "transformer_encoder_layer"}) {
    EXPECT_TRUE(ops.contains(op)) << "no reference case of " << op;
  }
}

TEST(GoldenCases, EveryOptionOfAttentionHasOne) {
  for (const char* name :
       {"alibi", "bias", "bias_broadcast", "bottom_right", "cross_wide_value", "huge_scores", "mask_with_empty_rows",
        "one_query", "padding", "padding_all_empty", "scale", "softcap", "window_causal"}) {
    EXPECT_TRUE(fs::exists(kCases / "ops" / ("attention__" + std::string(name) + ".safetensors"))) << name;
  }
}

TEST(GoldenCases, EveryArchitectureHasOne) {
  for (const char* name :
       {"bart", "bert", "distilbert", "gpt2", "llama", "marian", "mistral", "qwen2", "qwen3", "t5", "vit"}) {
    for (const char* file : {"config.json", "model.safetensors", "golden.safetensors"}) {
      EXPECT_TRUE(fs::exists(kCases / "models" / name / file)) << name << "/" << file;
    }
  }
}

TEST(GoldenCases, TokenizersAndMetricsHaveThem) {
  for (const char* name : {"bert", "gpt2", "llama"}) {
    EXPECT_TRUE(fs::exists(kCases / "tokenizers" / name / "tokenizer.json")) << name;
    EXPECT_TRUE(fs::exists(kCases / "tokenizers" / name / "tokenizer_cases.json")) << name;
  }
  EXPECT_TRUE(fs::exists(kCases / "metrics.json"));
}

TEST(GoldenCases, ChatTemplatesHaveThem) {
  for (const char* name :
       {"expressions", "filters", "small_chat", "statements", "text_methods", "undefined", "whitespace"}) {
    EXPECT_TRUE(fs::exists(kCases / "chat_templates" / (std::string(name) + ".json"))) << name;
  }
}

TEST(GoldenCases, AreAtMost2Megabytes) {
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kCases)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 2'000'000u);
}

}  // namespace
}  // namespace attend
