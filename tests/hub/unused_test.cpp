// Weights in the files beyond the model's parameters: used, known to be unnecessary, or rejected.

#include "attend/autograd/autograd.h"
#include "attend/hub/convert.h"
#include "attend/models/encoder.h"
#include "attend/models/gpt.h"
#include "attend/models/registry.h"
#include "hub_files.h"
#include "llama_reference.h"

namespace attend {
namespace {

using testing::bert_files;
using testing::complaint_about;
using testing::expect_error;
using testing::Filler;
using testing::HubFiles;
using testing::random_weights;
using testing::TemporaryFolder;
using testing::tiny_gpt2;
using testing::tiny_llama;

LoadedModel loaded(const HubFiles& files, const HubOptions& options = {}) {
  const TemporaryFolder folder;
  files.save(folder.path());
  return load_hub_model(folder.path(), options);
}

std::vector<float> logits_of(const Model& model) {
  const NoGrad no_grad;
  const auto& language = dynamic_cast<const LanguageModel&>(model);
  const Tensor ids = tensor<int64_t>({1, 5, 2, 10}, {1, 4});
  return language.head().logits(language.hidden(ids)).to_vector();
}

/// The output layer's bias is added to every row of logits, and saved in our own format.
void expect_output_bias(HubFiles files, int64_t words) {
  const std::vector<float> plain = logits_of(*loaded(files).model);
  const Tensor bias = random_weights({words}, 77);
  files.tensors["lm_head.bias"] = bias;
  const LoadedModel with = loaded(files);
  EXPECT_TRUE(with.unused.empty());
  const std::vector<float> logits = logits_of(*with.model), values = bias.to_vector();
  ASSERT_EQ(logits.size(), plain.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(logits[i], plain[i] + values[i % values.size()], 1e-5) << i;
  }
  const TemporaryFolder folder;
  save_model(*with.model, folder.path());
  EXPECT_EQ(logits_of(*load_model(folder.path())), logits);
}

TEST(Unused, TheOutputBiasOfALanguageModelIsUsed) {
  expect_output_bias(tiny_gpt2(), 11);
  HubFiles untied = tiny_gpt2();
  untied.tensors["lm_head.weight"] = random_weights({11, 8}, 5);
  expect_output_bias(untied, 11);
  HubFiles llama = tiny_llama();
  expect_output_bias(llama, llama.config["vocab_size"]);
}

TEST(Unused, TransformersHasNoOutputBias) {
  HubFiles files = tiny_gpt2();
  files.tensors["lm_head.bias"] = random_weights({11}, 77);
  const LoadedModel with = loaded(files);
  EXPECT_TRUE(hub_targets(*with.model).empty());
  expect_error<Error>(
      [&] { default_hub_target(*with.model); },
      "gpt2: this architecture does not support output_bias=yes; a model trained with --output-bias no can be "
      "exported");
}

TEST(Unused, OtherWeightsAreRefused) {
  const TemporaryFolder folder;
  HubFiles files = tiny_gpt2();
  files.tensors["adapter.weight"] = ones({3});
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "model.safetensors: model_type 'gpt2' does not use tensor 'adapter.weight'; results without it would be "
            "wrong (`attend info` lists all such tensors)");
  files.tensors["transformer.h.0.ln_3.bias"] = ones({8});
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "model.safetensors: model_type 'gpt2' does not use tensor 'adapter.weight' and 1 more; results without "
            "them would be wrong (`attend info` lists all such tensors)");
  expect_error<FormatError>([&] { load_any_model(folder.path()); },
                            folder.path() + "/" + complaint_about(folder.path()));
  const std::vector<std::string> both{"adapter.weight", "transformer.h.0.ln_3.bias"};
  EXPECT_EQ(load_any_model(folder.path(), {.allow_unused = true}).unused, both) << "to describe it";
}

TEST(Unused, HeadsOfOtherTasksChangeNothing) {
  HubFiles files = bert_files("bert", "bert.");
  Filler fill(files, testing::kEncoderDim);
  fill.both("qa_outputs", 2, testing::kEncoderDim);
  files.config["architectures"] = {"BertForQuestionAnswering"};
  const LoadedModel model = loaded(files);
  EXPECT_TRUE(model.unused.empty());
  EXPECT_EQ(model.notes,
            std::vector<std::string>{"weights of other tasks are not used: qa_outputs.bias, qa_outputs.weight"});
}

}  // namespace
}  // namespace attend
