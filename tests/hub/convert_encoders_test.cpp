// Encoders exported to Hugging Face format and read back.

#include "attend/autograd/autograd.h"
#include "attend/generate/classify.h"
#include "attend/hub/convert.h"
#include "attend/models/encoder.h"
#include "convert_testing.h"

namespace attend {
namespace {

using testing::small_tokenizer;
using testing::TemporaryFolder;
using Settings = std::map<std::string, std::string>;

Settings bert_with(Settings more) {
  more.insert(
      {{"norm_first", "no"}, {"pooling", "first"}, {"pooler", "tanh"}, {"labels", R"(["好", "bad", "so so"])"}});
  return more;
}

std::unique_ptr<Model> small_encoder(const Tokenizer& tokenizer, Settings settings) {
  settings.insert({{"dim", "12"}, {"heads", "2"}, {"context", "24"}});
  return testing::random_model("encoder", tokenizer, settings);
}

void expect_near(const Tensor& ours, const Tensor& theirs) {
  testing::expect_close(theirs, ours.to_vector<double>(), 1e-5);
}

void expect_same(const Settings& settings, const Tokenizer& tokenizer) {
  const NoGrad scope;
  const TemporaryFolder folder;
  const auto model = small_encoder(tokenizer, settings);
  save_hub_model(*model, tokenizer, "bert", folder.file("out"));
  const LoadedModel loaded = load_any_model(folder.file("out"));
  EXPECT_EQ(loaded.kind, "bert");
  EXPECT_TRUE(loaded.unused.empty()) << loaded.unused[0];
  const auto &ours = dynamic_cast<const Encoder&>(*model), &theirs = dynamic_cast<const Encoder&>(*loaded.model);
  const TextInputs inputs{.ids = tensor<int64_t>({2, 5, 6, 7, 3, 2, 9, 3, 0, 0}, {2, 5}),
                          .lengths = tensor<int64_t>({5, 3}, {2})};
  expect_near(ours.hidden(inputs), theirs.hidden(inputs));
  EXPECT_EQ(ours.labels(), theirs.labels());
  if (ours.settings.masked) {
    expect_near(ours.masked_head().logits(ours.masked_hidden(inputs)),
                theirs.masked_head().logits(theirs.masked_hidden(inputs)));
  }
  if (ours.labels().empty()) return;
  const auto again = load_tokenizer(folder.file("out"));
  const std::vector<std::string> texts{"a dog runs", "一只狗在公园里跑", "the park"}, pairs{"a dog\t狗", "the park\ta"};
  const auto expect_alike = [](const std::vector<Classified>& left, const std::vector<Classified>& right) {
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i].label, right[i].label);
      EXPECT_EQ(left[i].tokens, right[i].tokens);
      for (size_t k = 0; k < left[i].scores.size(); ++k) {
        EXPECT_NEAR(left[i].scores[k], right[i].scores[k], 1e-5);
      }
    }
  };
  expect_alike(classify(ours, tokenizer, texts), classify(theirs, *again, texts));
  expect_alike(classify_pairs(ours, tokenizer, pairs), classify_pairs(theirs, *again, pairs));
}

TEST(ConvertEncoders, ReadBackItIsTheSame) {
  const auto tokenizer = small_tokenizer();
  expect_same(bert_with({}), *tokenizer);
  expect_same(bert_with({{"types", "3"}, {"activation", "relu"}, {"ffn_dim", "20"}, {"eps", "0.01"}}), *tokenizer);
  expect_same(bert_with({{"positions", "sinusoidal"}, {"masked_head", "no"}}), *tokenizer);
  expect_same(bert_with({{"positions", "none"}, {"tied", "no"}}), *tokenizer);
  expect_same({{"norm_first", "no"}}, *tokenizer);                                             // masked-word head only
  expect_same({{"norm_first", "no"}, {"masked_head", "no"}, {"pooler", "tanh"}}, *tokenizer);  // hidden states only
}

TEST(ConvertEncoders, EveryKindOfTokenizer) {
  for (const TokenizerKind kind : {TokenizerKind::words, TokenizerKind::bpe, TokenizerKind::wordpiece}) {
    expect_same(bert_with({}), *small_tokenizer({.kind = kind, .vocabulary = 300, .min_count = 1}));
  }
  expect_same(bert_with({}), *small_tokenizer({.kind = TokenizerKind::sentencepiece, .vocabulary = 290}));
}

TEST(ConvertEncoders, RefusesByName) {
  const auto tokenizer = small_tokenizer();
  testing::expect_error<Error>(
      [&] {
        default_hub_target(*small_encoder(*tokenizer, {{"labels", R"(["a", "b"])"}, {"positions", "rotary"}}));
      },
      "bert: this architecture does not support norm_first=yes, positions=rotary, pooling=mean, pooler=none; a model "
      "trained with --norm-first no --positions learned --pooling first --pooler tanh can be exported");
}

}  // namespace
}  // namespace attend
