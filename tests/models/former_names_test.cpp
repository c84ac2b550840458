// Configs and options written by version 0.1 are still read; only the current names are written.
#include <gtest/gtest.h>

#include "attend/base/error.h"
#include "attend/models/registry.h"
#include "attend/train/options.h"

namespace attend {
namespace {

std::string config_of(const std::string& text) {
  Rng rng{1};
  return create_model(text, rng)->config();
}

TEST(FormerNames, ConfigsAreReadAndWrittenWithTheCurrentNames) {
  const std::string gpt =
      config_of(R"({"architecture": "gpt", "words": 11, "dim": 16, "heads": 2, "layers": 1, "hidden": 24})");
  EXPECT_EQ(gpt, config_of(R"({"architecture": "gpt", "vocab_size": 11, "dim": 16, "heads": 2, "layers": 1,
                               "ffn_dim": 24})"));
  EXPECT_NE(gpt.find("\"vocab_size\": 11"), std::string::npos);
  EXPECT_NE(gpt.find("\"ffn_dim\": 24"), std::string::npos);
  EXPECT_EQ(gpt.find("\"words\""), std::string::npos);
  EXPECT_EQ(gpt.find("\"hidden\""), std::string::npos);

  EXPECT_EQ(config_of(R"({"architecture": "rnn", "words": 11, "dim": 16, "hidden": 24})"),
            config_of(R"({"architecture": "rnn", "vocab_size": 11, "dim": 16, "state_dim": 24})"));
  EXPECT_EQ(config_of(R"({"architecture": "transformer", "words": 11, "dim": 16, "heads": 2, "encoder_layers": 1,
                          "decoder_layers": 1, "hidden": 24, "decoder_hidden": 40})"),
            config_of(R"({"architecture": "transformer", "vocab_size": 11, "dim": 16, "heads": 2, "encoder_layers": 1,
                          "decoder_layers": 1, "ffn_dim": 24, "decoder_ffn_dim": 40})"));
}

TEST(FormerNames, SettingsGivenByNameMeanTheCurrentOnes) {
  const std::string preset = preset_config("transformer", "tiny");
  EXPECT_EQ(with_settings(preset, {{"words", "9"}, {"hidden", "64"}}),
            with_settings(preset, {{"vocab_size", "9"}, {"ffn_dim", "64"}}));
  EXPECT_THROW(with_settings(preset, {{"hidden", "64"}, {"ffn_dim", "64"}}), Error);
}

TEST(FormerNames, TrainingOptionsReadTheFormerPrecisions) {
  EXPECT_EQ(training_from(R"({"precision": "bfloat16"})").precision, Precision::bf16);
  EXPECT_EQ(training_from(R"({"precision": "float32"})").precision, Precision::f32);
  EXPECT_EQ(with_training({}, {{"precision", "tf32"}}).precision, Precision::tf32);
  EXPECT_EQ(with_training({}, {{"precision", "bfloat16"}}).precision, Precision::bf16);
  EXPECT_NE(training_text({.precision = Precision::bf16}).find("\"bf16\""), std::string::npos);
}

TEST(FormerNames, AnErrorNamesTheCurrentSetting) {
  try {
    config_of(R"({"architecture": "gpt", "words": -1})");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'vocab_size'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace attend
