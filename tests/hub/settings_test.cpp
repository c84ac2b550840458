// Which settings of a config.json are known: an unknown one is refused by name, those of published models are not.

#include "attend/nn/init.h"
#include "hub/architecture.h"
#include "hub/common_settings.h"
#include "hub/generation.h"
#include "hub_files.h"
#include "popular_configs.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::complaint_about;
using testing::golden_model;
using testing::HubFiles;
using testing::TemporaryFolder;

constexpr const char* kAdvice =
    ": results without it may be wrong; delete it from the file if it does not change the computation";

/// A reference case of the same family: only its settings are read.
const std::map<std::string, std::string> kFamilies{{"roberta", "bert"},   {"xlm-roberta", "bert"},
                                                   {"camembert", "bert"}, {"pegasus", "marian"},
                                                   {"mbart", "bart"},     {"mt5", "t5"}};

json config_of(const std::string& model_type) {
  const auto family = kFamilies.find(model_type);
  json config = testing::hub_files(golden_model(family == kFamilies.end() ? model_type : family->second)).config;
  config["model_type"] = model_type;
  if (family != kFamilies.end()) config.erase("architectures");
  if (model_type == "pegasus") {  // Marian's own
    for (const char* key : {"decoder_vocab_size", "share_encoder_decoder_embeddings"}) config.erase(key);
  }
  return config;
}

/// Reads a config as load_hub_model does, without any weights, and gives the message of its error, or "".
std::string complaint(const json& config) {
  try {
    const hub::HubConfig read(config.dump(), "config.json");
    for (const hub::HubArchitecture& one : hub::hub_architectures()) {
      if (one.model_type != read.model_type()) continue;
      hub::read_common_settings(read);
      const hub::HubFolder folder{"", read, hub::HubWeights::from_tensors({}, "none")};
      const BlankParameters scope;
      const std::unique_ptr<Model> model = one.create(folder);
      one.names(folder, *model);
      hub::generation_rules("/nonexistent", read);
      hub::task_rules("/nonexistent", read);
      hub::require_all_read(read);
      return "";
    }
    return "no such architecture";
  } catch (const FormatError& error) {
    return error.what();
  }
}

std::string complaint_with(const std::string& model_type, const json& changes) {
  json config = config_of(model_type);
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return complaint(config);
}

TEST(Settings, AnUnknownOneIsRefusedByName) {
  for (const std::string& type : hub_model_types()) {
    EXPECT_EQ(complaint(config_of(type)), "") << type;
    EXPECT_EQ(
        complaint_with(type, {{"attn_logit_softcapping", 50.5}}),
        "config.json: 'attn_logit_softcapping': 50.5 is an unknown setting of model_type '" + type + "'" + kAdvice);
  }
}

TEST(Settings, ANullIsNotSet) {
  for (const std::string& type : hub_model_types()) {
    EXPECT_EQ(complaint_with(type, {{"attn_logit_softcapping", nullptr}}), "") << type;
    EXPECT_NE(complaint_with(type, {{"attn_logit_softcapping", false}}), "") << type;
  }
}

TEST(Settings, AllUnknownOnesAreNamedUpToFive) {
  EXPECT_EQ(complaint_with("gpt2", {{"zz_a", "很"}, {"zz_b", {1, 2}}}),
            "config.json: 'zz_a': \"很\", 'zz_b': [1,2] are unknown settings of model_type 'gpt2': results without "
            "them may be wrong; delete those from the file that do not change the computation");
  json many;
  for (int i = 0; i < 8; ++i) many["zz_" + std::to_string(i)] = i;
  const std::string said = complaint_with("gpt2", many);
  EXPECT_NE(said.find("'zz_4': 4 and 3 more are unknown"), std::string::npos) << said;
}

TEST(Settings, ThoseOfASectionCount) {
  json rope{{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}};
  EXPECT_EQ(complaint_with("llama", {{"rope_parameters", rope}}), "");
  rope["beta_fast"] = 32;
  const std::string said = complaint_with("llama", {{"rope_parameters", rope}});
  EXPECT_TRUE(said.starts_with("config.json: 'rope_parameters.beta_fast': 32 is an unknown setting")) << said;
}

TEST(Settings, RefusedByLoadingAndListedByInfo) {
  const TemporaryFolder folder;
  HubFiles files = testing::tiny_gpt2();
  files.config["logit_scale"] = 0.5;
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            std::string("config.json: 'logit_scale': 0.5 is an unknown setting of model_type 'gpt2'") + kAdvice);
  const LoadedModel described = load_hub_model(folder.path(), {.allow_unused = true});
  EXPECT_EQ(described.notes,
            (std::vector<std::string>{"other commands reject this model for its unknown settings 'logit_scale': 0.5"}));
}

TEST(Settings, EveryReferenceCaseLoads) {
  int64_t count = 0;
  for (const auto& entry : fs::directory_iterator(golden_model(""))) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    EXPECT_EQ(complaint_about(entry.path().string()), "nothing");
    ++count;
  }
  EXPECT_GE(count, 11);
}

TEST(Settings, PublishedModelsHaveNoUnknownOnes) {
  const auto check = [](std::span<const testing::PopularConfig> configs) {
    for (const auto& [name, text] : configs) EXPECT_EQ(complaint(json::parse(text)), "") << name;
  };
  check(testing::kLanguageConfigs);
  check(testing::kEncoderConfigs);
  check(testing::kPairConfigs);
}

/// transformers 4 writes all of these with save_pretrained where a model sets them, or where all values are asked for.
TEST(Settings, ThoseThatAnyConfigOfTransformersMayHave) {
  const json common = json::parse(R"({"return_dict": true, "output_hidden_states": false, "output_attentions": false,
    "torchscript": false, "torch_dtype": "float32", "dtype": "float32", "use_bfloat16": false,
    "tf_legacy_loss": false, "pruned_heads": {}, "tie_word_embeddings": true, "chunk_size_feed_forward": 0,
    "is_decoder": false, "cross_attention_hidden_size": null, "add_cross_attention": false,
    "tie_encoder_decoder": false, "finetuning_task": "sst-2", "id2label": {"0": "a", "1": "b"},
    "label2id": {"a": 0, "b": 1}, "task_specific_params": null, "problem_type": null, "tokenizer_class": "T",
    "prefix": null, "bos_token_id": 1, "pad_token_id": 0, "eos_token_id": 2, "sep_token_id": 3,
    "decoder_start_token_id": 2, "max_length": 20, "min_length": 0, "do_sample": false, "early_stopping": false,
    "num_beams": 1, "num_beam_groups": 1, "diversity_penalty": 0.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0,
    "typical_p": 1.0, "repetition_penalty": 1.0, "length_penalty": 1.0, "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0, "bad_words_ids": null, "num_return_sequences": 1, "output_scores": false,
    "return_dict_in_generate": false, "forced_bos_token_id": null, "forced_eos_token_id": null,
    "remove_invalid_values": false, "exponential_decay_length_penalty": null, "suppress_tokens": null,
    "begin_suppress_tokens": null, "_name_or_path": "x", "transformers_version": "4.40.0",
    "_attn_implementation_autoset": true, "use_cache": true, "gradient_checkpointing": false})");
  for (const std::string& type : hub_model_types()) EXPECT_EQ(complaint_with(type, common), "") << type;
}

TEST(Settings, ThoseWithOneSupportedValue) {
  const auto refused = [](const std::string& type, const char* key, const json& value) {
    const std::string said = complaint_with(type, {{key, value}});
    EXPECT_TRUE(said.starts_with("config.json: '" + std::string(key) + "'")) << type << " " << key << ": " << said;
    EXPECT_EQ(said.find("unknown"), std::string::npos) << said;
  };
  for (const std::string& type : hub_model_types()) {
    refused(type, "pruned_heads", {{"0", {1}}});
    refused(type, "add_cross_attention", true);
    refused(type, "quantization_config", {{"bits", 4}});
  }
  refused("llama", "is_encoder_decoder", true);
  refused("bert", "is_encoder_decoder", true);
  refused("t5", "is_encoder_decoder", false);
  refused("qwen2", "is_causal", false);
  refused("llama", "rope_interleaved", true);
  refused("qwen2", "use_mrope", true);
  refused("qwen2", "attention_bias", false);
  refused("mistral", "attention_bias", true);
  refused("gpt2", "hidden_size", 7);
  refused("bart", "num_attention_heads", 3);
  refused("t5", "head_dim", 5);
  refused("t5", "is_gated_act", true);
  refused("t5", "dense_act_fn", "gelu");
  refused("bart", "normalize_before", true);
  refused("mbart", "add_final_layer_norm", false);
  refused("marian", "normalize_embedding", true);
  refused("pegasus", "static_position_embeddings", false);
  refused("bart", "extra_pos_embeddings", 1);
  refused("vit", "problem_type", "multi_label_classification");
  EXPECT_EQ(complaint_with("llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
            "config.json: 'rope_parameters' and 'rope_scaling' differ; delete the wrong one");
}

/// Before sentence-transformers 4, a key of its own said how a cross-encoder scores.
TEST(Settings, ScoresOfACrossEncoder) {
  const TemporaryFolder folder;
  HubFiles files = testing::bert_files("bert", "bert.");
  files.config["architectures"] = {"BertForSequenceClassification"};
  testing::Filler fill(files, testing::kEncoderDim, "bert.");
  fill.both("pooler.dense", testing::kEncoderDim, testing::kEncoderDim);
  fill.set_prefix("");
  fill.both("classifier", 1, testing::kEncoderDim);
  const auto scores = [&](const json& changes) {
    HubFiles changed = files;
    for (const auto& [key, value] : changes.items()) changed.config[key] = value;
    changed.save(folder.path());
    return dynamic_cast<const EncoderModel&>(*load_hub_model(folder.path()).model).label_scores();
  };
  constexpr const char* kKey = "sbert_ce_default_activation_function";
  EXPECT_EQ(scores({}), LabelScores::each);
  EXPECT_EQ(scores({{kKey, "torch.nn.modules.linear.Identity"}}), LabelScores::values);
  EXPECT_EQ(scores({{kKey, "torch.nn.modules.activation.Sigmoid"}}), LabelScores::each);
  files.config[kKey] = "torch.nn.modules.activation.Tanh";
  files.save(folder.path());
  EXPECT_EQ(complaint_about(folder.path()),
            "config.json: scores by the function 'torch.nn.modules.activation.Tanh' are not supported; there are "
            "Identity and Sigmoid");
}

TEST(Settings, UnknownOnesOfGenerationAreNotFollowed) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("generation_config.json"))
      << R"({"bos_token_id": 1, "pad_token_id": 0, "transformers_version": "5.0", "do_sample": true, "top_p": 0.8,
             "temperature": 0.7, "mirostat": 2, "entropy_bound": null})";
  const hub::HubConfig config(
      R"({"task_specific_params": {"chat": {"num_beams": 2, "persona": "x"}, "help": {"num_beams": 3}}})",
      "config.json");
  EXPECT_EQ(hub::generation_rules(folder.path(), config).unfollowed, (std::vector<std::string>{"mirostat"}));
  auto tasks = hub::task_rules(folder.path(), config);
  EXPECT_EQ(tasks["chat"].unfollowed, (std::vector<std::string>{"persona", "mirostat"}));
  EXPECT_EQ(tasks["help"].unfollowed, (std::vector<std::string>{"mirostat"}));
  EXPECT_TRUE(config.unread().empty());
}

/// BART's first configs name the rule instead of the token.
TEST(Settings, TheFirstTokenThatIsForced) {
  const auto forced = [](const char* text) {
    return hub::generation_rules("/nonexistent", hub::HubConfig(text, "config.json")).forced_first;
  };
  EXPECT_EQ(forced(R"({"force_bos_token_to_be_generated": true, "bos_token_id": 5})"), 5);
  EXPECT_EQ(forced(R"({"force_bos_token_to_be_generated": true, "bos_token_id": 5, "forced_bos_token_id": 7})"), 7);
  EXPECT_EQ(forced(R"({"force_bos_token_to_be_generated": false, "bos_token_id": 5})"), -1);
}

}  // namespace
}  // namespace attend
