// Whether the embedding is also the output matrix, according to the config and the files.

#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "hub_files.h"
#include "llama_reference.h"

namespace attend {
namespace {

using testing::Filler;
using testing::HubFiles;
using testing::random_weights;
using testing::TemporaryFolder;
using testing::tiny_gpt2;
using testing::tiny_llama;

/// The first rows of logits of a model loaded from these files.
struct Loaded {
  std::vector<float> logits;
  std::vector<std::string> notes;
};
Loaded loaded(const HubFiles& files) {
  const TemporaryFolder folder;
  files.save(folder.path());
  const LoadedModel one = load_hub_model(folder.path());
  EXPECT_TRUE(one.unused.empty()) << one.unused.at(0);
  const auto& model = dynamic_cast<const LanguageModel&>(*one.model);
  const Tensor ids = tensor<int64_t>({1, 5, 2, 10}, {1, 4});
  return {model.head().logits(model.hidden(ids)).to_vector(), one.notes};
}

/// Both values of the config key, each with no output matrix, a copy of the embedding, and a different matrix.
void expect_ties(HubFiles files, const std::string& table) {
  const auto with_head = [&](const Tensor& head, bool is_said) {
    HubFiles changed = files;
    changed.config["tie_word_embeddings"] = is_said;
    changed.tensors.erase("lm_head.weight");
    if (head) changed.tensors["lm_head.weight"] = head;
    return loaded(changed);
  };
  const Tensor words = files.tensors.at(table), other = random_weights(words.shape(), 99);
  const Loaded tied = with_head({}, true), own = with_head(other, false);
  EXPECT_TRUE(tied.notes.empty());
  EXPECT_TRUE(own.notes.empty());
  EXPECT_NE(tied.logits, own.logits);
  EXPECT_EQ(with_head(words, true).logits, tied.logits);
  EXPECT_EQ(with_head(words, false).logits, tied.logits);
  EXPECT_EQ(with_head(other, true).logits, own.logits);  // a different matrix is always used
  const Loaded without = with_head({}, false);
  EXPECT_EQ(without.logits, tied.logits);
  EXPECT_EQ(without.notes,
            std::vector<std::string>{"'tie_word_embeddings' is false, but the weights have no output matrix: "
                                     "the embedding is used instead"});
}

TEST(TiedOutput, LanguageModels) {
  expect_ties(tiny_gpt2(), "transformer.wte.weight");
  expect_ties(tiny_llama(), "model.embed_tokens.weight");
  expect_ties(tiny_llama({{"model_type", "qwen2"}}), "model.embed_tokens.weight");
}

TEST(TiedOutput, OfAnotherShapeItIsRefused) {
  HubFiles files = tiny_gpt2();
  files.tensors["lm_head.weight"] = random_weights({12, 8}, 3);
  const TemporaryFolder folder;
  files.save(folder.path());
  EXPECT_EQ(testing::complaint_about(folder.path()),
            "model.safetensors: tensor 'lm_head.weight' has shape [12, 8], but config.json describes [11, 8]");
}

TEST(TiedOutput, MaskedWordHeads) {
  HubFiles files = testing::bert_files("bert", "bert.");
  files.config["architectures"] = {"BertForMaskedLM"};
  Filler fill(files, testing::kEncoderDim, "cls.predictions.");
  fill.both("transform.dense", testing::kEncoderDim, testing::kEncoderDim);
  fill.norm("transform.LayerNorm");
  fill.add("bias", {17});
  const auto is_tied = [&] {
    const TemporaryFolder folder;
    files.save(folder.path());
    return dynamic_cast<const Encoder&>(*load_hub_model(folder.path()).model).settings.tied;
  };
  EXPECT_TRUE(is_tied());
  files.tensors["cls.predictions.decoder.weight"] = files.tensors["bert.embeddings.word_embeddings.weight"];
  EXPECT_TRUE(is_tied());
  fill.add("decoder.weight", {17, testing::kEncoderDim});
  EXPECT_FALSE(is_tied());
}

}  // namespace
}  // namespace attend
