#include "attend/hub/open_model.h"

#include <gtest/gtest.h>

#include "attend/base/error.h"
#include "attend/generate/generate_text.h"
#include "attend/models/registry.h"
#include "hub/convert_testing.h"
#include "testing/temporary_folder.h"

namespace attend {
namespace {

using testing::TemporaryFolder;

class OpenModel : public ::testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = testing::small_tokenizer();
    Rng rng{3};
    const auto model =
        create_model(with_settings(preset_config("gpt", "tiny"), {{"vocab_size", std::to_string(tokenizer_->size())},
                                                                  {"dim", "16"},
                                                                  {"heads", "2"},
                                                                  {"layers", "1"},
                                                                  {"context", "32"}}),
                     rng);
    save_model(*model, folder_.path());
  }

  TemporaryFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(OpenModel, GivesModelTokenizerAndRulesTogether) {
  tokenizer_->save(folder_.path());
  const OpenedModel opened = open_model(folder_.path());
  EXPECT_EQ(opened.path, folder_.path());
  EXPECT_EQ(opened.kind, "attend");
  ASSERT_NE(opened.tokenizer, nullptr);
  const auto& model = dynamic_cast<const LanguageModel&>(*opened.model);
  const auto texts = generate_text(model, *opened.tokenizer, std::vector<std::string>{"a"},
                                   {.tokens = 5, .sampling = {.temperature = 0}, .rules = opened.rules});
  EXPECT_EQ(texts[0].ids.size(), 5u);
  const OpenedModel small = open_model(folder_.path(), {.format = WeightFormat::int8});
  EXPECT_EQ(small.model->matrices()[0]->dtype(), DType::i8);
}

TEST_F(OpenModel, NeedsATokenizerUnlessItOnlyDescribes) {
  EXPECT_THROW(open_model(folder_.path()), Error);
  const OpenedModel opened = describe_model(folder_.path());
  EXPECT_EQ(opened.tokenizer, nullptr);
  EXPECT_EQ(opened.notes.size(), 1u);
}

}  // namespace
}  // namespace attend
