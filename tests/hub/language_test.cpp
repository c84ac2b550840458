// Decoder-only models with options that the reference folders do not use, against a naive forward pass. All ways of
// running a model must agree.

#include "attend/autograd/autograd.h"
#include "attend/models/gpt.h"
#include "attend/ops/shape.h"
#include "llama_reference.h"

namespace attend {
namespace {

using nlohmann::json;
using testing::complaint_about;
using testing::HubFiles;
using testing::LlamaReference;
using testing::TemporaryFolder;
using testing::tiny_llama;

const std::vector<int64_t> kIds{3, 18, 7, 0, 11, 5, 5, 14, 2, 9, 16, 1};

const LanguageModel& language(const LoadedModel& loaded) { return dynamic_cast<const LanguageModel&>(*loaded.model); }

Tensor rows_of(const std::vector<int64_t>& ids) { return tensor<int64_t>(ids, {1, std::ssize(ids)}); }

std::vector<double> logits_of(const LanguageModel& model, const Tensor& ids) {
  const NoGrad scope;
  return model.head().logits(model.hidden(ids)).to_vector<double>();
}

/// Compares both one pass and token-by-token decoding with the reference.
void expect_as_reference(const HubFiles& files, const std::string& what) {
  SCOPED_TRACE(what);
  const TemporaryFolder folder;
  files.save(folder.path());
  const LoadedModel loaded = load_hub_model(folder.path());
  EXPECT_TRUE(loaded.unused.empty());
  const std::vector<double> expected = LlamaReference(files).logits(kIds),
                            ours = logits_of(language(loaded), rows_of(kIds));
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected[i], 2e-5) << i;
  const auto decoding = language(loaded).start();
  const size_t words = expected.size() / kIds.size();
  for (size_t t = 0; t < kIds.size(); ++t) {
    const auto step = decoding->step(rows_of({kIds[t]})).to_vector<double>();
    for (size_t i = 0; i < words; ++i) ASSERT_NEAR(step[i], expected[t * words + i], 2e-5) << "token " << t;
  }
}

TEST(HubLanguage, LlamaOptions) {
  expect_as_reference(tiny_llama(), "plain");
  expect_as_reference(tiny_llama({{"tie_word_embeddings", true}}), "tied");
  expect_as_reference(tiny_llama({{"attention_bias", true}}), "attention_bias");
  expect_as_reference(tiny_llama({{"mlp_bias", true}}), "mlp_bias");
  expect_as_reference(tiny_llama({{"rms_norm_eps", 0.3}}), "eps");
  expect_as_reference(tiny_llama({{"rope_theta", 50}}), "theta");
  expect_as_reference(tiny_llama({{"head_dim", 10}}), "head_dim");
  expect_as_reference(tiny_llama({{"head_dim", 8}, {"partial_rotary_factor", 0.5}}), "partial_rotary_factor");
  expect_as_reference(tiny_llama({{"num_key_value_heads", 1}}), "one key head");
  expect_as_reference(tiny_llama({{"num_key_value_heads", 4}}), "all key heads");
}

TEST(HubLanguage, RopeScaling) {
  const json llama3{
      {"factor", 4.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 16}};
  json old = llama3, fresh = llama3;
  old["type"] = "llama3";
  fresh["rope_type"] = "llama3";
  fresh["rope_theta"] = 300.0;
  expect_as_reference(tiny_llama({{"rope_scaling", old}, {"rope_theta", 300.0}}), "llama3");
  expect_as_reference(tiny_llama({{"rope_parameters", fresh}}), "llama3, transformers 5");
  expect_as_reference(tiny_llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}}), "linear");
  expect_as_reference(
      tiny_llama({{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.5}, {"rope_theta", 77.0}}}}),
      "linear, transformers 5");
}

TEST(HubLanguage, Relatives) {
  expect_as_reference(tiny_llama({{"model_type", "qwen2"}}), "qwen2");
  expect_as_reference(tiny_llama({{"model_type", "qwen3"}}), "qwen3");
  expect_as_reference(tiny_llama({{"model_type", "qwen3"}, {"attention_bias", true}}), "qwen3 with biases");
  expect_as_reference(tiny_llama({{"model_type", "mistral"}, {"sliding_window", 3}}), "mistral");
  expect_as_reference(tiny_llama({{"model_type", "mistral"}, {"sliding_window", nullptr}}), "mistral without a window");
}

TEST(HubLanguage, LayersThatSlide) {
  const json sliding{{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 4}};
  json by_number = sliding, by_type = sliding, off = sliding;
  by_number["max_window_layers"] = 1;
  by_type["layer_types"] = {"sliding_attention", "full_attention"};
  off["use_sliding_window"] = false;
  expect_as_reference(tiny_llama(by_number), "max_window_layers");
  expect_as_reference(tiny_llama(by_type), "layer_types");
  expect_as_reference(tiny_llama(off), "use_sliding_window false");
  json usual = by_number;
  usual.erase("sliding_window");
  const auto window_of = [](const json& change) {
    const TemporaryFolder folder;
    tiny_llama(change).save(folder.path());
    return dynamic_cast<const Gpt&>(*load_hub_model(folder.path()).model).settings.window;
  };
  EXPECT_EQ(window_of(usual), 4096);
  usual["sliding_window"] = nullptr;
  EXPECT_EQ(window_of(usual), 0);
}

TEST(HubLanguage, PaddedBatchesAndCachesAreTheSame) {
  for (const json& change : {json{{"model_type", "mistral"}, {"sliding_window", 3}}, json{{"model_type", "qwen3"}}}) {
    const TemporaryFolder folder;
    tiny_llama(change).save(folder.path());
    const LoadedModel loaded = load_hub_model(folder.path());
    const LanguageModel& model = language(loaded);
    const std::vector<std::vector<int64_t>> texts{{3, 18, 7, 0, 11, 5}, {4, 4}, {9, 1, 2, 8}};
    std::vector<int64_t> padded, lengths;
    for (const auto& text : texts) {
      padded.insert(padded.end(), text.begin(), text.end());
      padded.resize(padded.size() + 6 - text.size(), 0);
      lengths.push_back(std::ssize(text));
    }
    const auto together = model.start();
    const auto first = together->step(tensor<int64_t>(padded, {3, 6}), tensor<int64_t>(lengths, {3}));
    const auto second = together->step(tensor<int64_t>({7, 8, 9}, {3, 1}));
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<int64_t> text = texts[static_cast<size_t>(row)];
      const auto last = [&] {
        const auto all = logits_of(model, rows_of(text));
        return std::vector<double>(all.end() - 19, all.end());
      };
      testing::expect_close(select(first, 0, row), last(), 1e-5);
      text.push_back(7 + row);
      testing::expect_close(select(second, 0, row), last(), 1e-5);
    }
  }
}

TEST(HubLanguage, OptionsThatAreNotSupportedAreNamed) {
  const auto said = [](const json& change) {
    const TemporaryFolder folder;
    HubFiles files = tiny_llama();
    files.config.update(change);
    files.save(folder.path());
    return complaint_about(folder.path());
  };
  EXPECT_EQ(said({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}),
            "config.json: rotary positions of type 'yarn' are not supported; expected default, linear or llama3");
  EXPECT_EQ(said({{"rope_scaling", {{"type", "linear"}}}}),
            "config.json: rotary positions of type 'linear' require a 'factor'");
  EXPECT_TRUE(said({{"hidden_act", "swishy"}})
                  .starts_with("config.json: 'hidden_act' 'swishy' is not supported; expected one of"));
  EXPECT_TRUE(said({{"quantization_config", {{"bits", 4}}}})
                  .starts_with("config.json: 'quantization_config': {\"bits\":4} is not supported"));
  EXPECT_EQ(said({{"model_type", "qwen2"}, {"layer_types", {"linear_attention", "full_attention"}}}),
            "config.json: layers of type 'linear_attention' are not supported; expected full_attention or "
            "sliding_attention");
  EXPECT_EQ(said({{"architectures", {"LlamaForSequenceClassification"}}}),
            "config.json: architecture 'LlamaForSequenceClassification' is not supported; expected a language model "
            "(…ForCausalLM)");
  EXPECT_EQ(said({{"num_key_value_heads", 3}}),
            "config.json: MultiheadAttention: heads 4 is not divisible by key_heads 3");
  EXPECT_EQ(said({{"head_dim", 5}}),
            "config.json: gpt: RoPE needs an even number of features, at most head_dim = 5, got 5");
}

TEST(HubLanguage, Gpt2Options) {
  const auto first_logit = [](const json& change) {
    const TemporaryFolder folder;
    HubFiles files = testing::tiny_gpt2();
    files.config.update(change);
    if (change.contains("tie_word_embeddings")) files.tensors["lm_head.weight"] = testing::random_weights({11, 8}, 77);
    files.save(folder.path());
    return logits_of(language(load_hub_model(folder.path())), rows_of({1, 2, 3})).at(20);
  };
  const double plain = first_logit(json::object());
  EXPECT_EQ(plain, first_logit({{"activation_function", "gelu_pytorch_tanh"}}));
  for (const json& change : {json{{"activation_function", "relu"}}, json{{"activation_function", "quick_gelu"}},
                             json{{"layer_norm_epsilon", 0.5}}, json{{"scale_attn_weights", false}},
                             json{{"scale_attn_by_inverse_layer_idx", true}}, json{{"tie_word_embeddings", false}}}) {
    EXPECT_NE(plain, first_logit(change)) << change;
  }
  const TemporaryFolder folder;
  HubFiles files = testing::tiny_gpt2();
  files.config["add_cross_attention"] = true;
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()), "config.json: 'add_cross_attention': true is not supported, only false");
}

}  // namespace
}  // namespace attend
