#include "generate/text_reader.h"

#include <gtest/gtest.h>

#include "attend/autograd/autograd.h"
#include "attend/generate/embed.h"
#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "attend/tensor/creation.h"
#include "generate/mixed_sequences.h"

namespace attend {
namespace {

using testing::ModelCase;

class EveryLanguageModelReads : public ::testing::TestWithParam<ModelCase> {};

/// However a text is divided, its hidden states have the bits of the whole text.
TEST_P(EveryLanguageModelReads, PartsAsTheWholeText) {
  const std::unique_ptr<Model> model = testing::created(GetParam(), 60);
  const auto& language = dynamic_cast<const LanguageModel&>(*model);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 60; ++i) ids.push_back(3 + (i * i + 5 * i) % (testing::kVocab - 3));
  const NoGrad scope;
  const BatchInvariantScope alone;
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  const auto whole = language.hidden(tensor<int64_t>(wide, {1, 60})).to_vector<float>();
  for (const int64_t count : {1, 7, 16, 59, 60, 1000}) {
    const auto reader = TextReader::create(*model, ids, 0);
    ASSERT_NE(reader, nullptr);
    std::vector<float> parts;
    while (reader->left() > 0) {
      const Tensor part = reader->read(count);
      EXPECT_LE(part.dim(0), count);
      const auto values = part.to_vector<float>();
      parts.insert(parts.end(), values.begin(), values.end());
    }
    EXPECT_EQ(parts, whole) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryLanguageModelReads,
    ::testing::Values(ModelCase{"gpt", "gpt"}, ModelCase{"gpt_rotary", "gpt", {{"positions", "rotary"}}},
                      ModelCase{"gpt_alibi", "gpt", {{"positions", "alibi"}}},
                      ModelCase{"gpt_window", "gpt", {{"positions", "rotary"}, {"window", "5"}, {"key_heads", "1"}}}),
    [](const auto& param) { return param.param.name; });

TEST(TextReader, ReadsOnlyTextsThatFit) {
  const std::unique_ptr<Model> model = testing::created({"gpt", "gpt"}, 60);
  const std::vector<int32_t> ids(40, 5);
  EXPECT_EQ(TextReader::create(*model, ids, 1), nullptr);
  EXPECT_NE(TextReader::create(*model, ids, 1 << 30), nullptr);
  EXPECT_EQ(TextReader::create(*testing::created({"pair", "transformer"}, 60), ids, 0), nullptr);
}

}  // namespace
}  // namespace attend
