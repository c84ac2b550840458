// A text gives the same numbers, to the bit, in any batch.
#include <gtest/gtest.h>

#include "attend/generate/classify.h"
#include "attend/generate/embed.h"
#include "generate/byte_tokenizer.h"
#include "generate/tiny_models.h"

namespace attend {
namespace {

using testing::ByteTokenizer;
using testing::tiny_model;

/// Texts of 0 to 60 bytes in mixed order, several of each kind.
std::vector<std::string> mixed_texts() {
  std::vector<std::string> texts;
  for (const size_t length : {3, 60, 1, 17, 0, 4, 33, 2, 5, 60, 16, 6, 18, 8, 29, 1, 7, 41, 12, 9}) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + (texts.size() * 7 + i * i) % 20));
    texts.push_back(text);
  }
  return texts;
}

constexpr int64_t kBatches[]{1, 2, 7, 30, 64, 200};

struct Kind {
  std::string architecture;
  std::map<std::string, std::string> settings;
};

std::unique_ptr<Model> model_of(const Kind& kind, WeightFormat format) {
  auto settings = kind.settings;
  settings.try_emplace("dim", "40");
  auto model = tiny_model(kind.architecture, ByteTokenizer().size(), settings);
  set_weight_format(*model, format);
  return model;
}

TEST(Batches, EmbeddingsDoNotDependOnTheBatch) {
  const ByteTokenizer tokenizer;
  const std::vector<std::string> texts = mixed_texts();
  for (const Kind& kind : {Kind{"encoder", {}}, Kind{"gpt", {}}, Kind{"gpt", {{"positions", "rotary"}}},
                           Kind{"transformer", {}}, Kind{"transformer", {{"positions", "relative"}}}}) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      SCOPED_TRACE(kind.architecture + " " + name_of(format));
      const auto model = model_of(kind, format);
      const EmbedOptions plain{.sentence = {.pooling = {TextPooling::mean, TextPooling::first}, .longest = 0}};
      const auto together = embed(*model, tokenizer, texts, plain);
      for (const int64_t tokens : kBatches) {
        EmbedOptions options = plain;
        options.batch_tokens = tokens;
        const auto apart = embed(*model, tokenizer, texts, options);
        for (size_t i = 0; i < texts.size(); ++i) {
          EXPECT_EQ(apart[i].vector, together[i].vector) << texts[i].size() << " bytes, batches of " << tokens;
        }
      }
    }
  }
}

TEST(Batches, ClassificationsDoNotDependOnTheBatch) {
  const ByteTokenizer tokenizer;
  const std::vector<std::string> texts = mixed_texts();
  for (const std::string pooling : {"mean", "first"}) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      SCOPED_TRACE(pooling + " " + name_of(format));
      const auto model = model_of({"encoder", {{"pooling", pooling}}}, format);
      const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
      const auto together = classify(encoder, tokenizer, texts);
      for (const int64_t tokens : kBatches) {
        const auto apart = classify(encoder, tokenizer, texts, tokens);
        for (size_t i = 0; i < texts.size(); ++i) {
          EXPECT_EQ(apart[i].scores, together[i].scores) << texts[i].size() << " bytes, batches of " << tokens;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attend
