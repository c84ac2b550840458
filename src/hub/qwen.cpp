#include "hub/describe.h"
#include "hub/language.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create_qwen2(const HubFolder& folder) {
  GptConfig config = llama_config(folder);
  config.attention_bias = AttentionBias::inputs;
  folder.config.expect("attention_bias", true);
  folder.config.expect("use_mrope", false);
  read_layer_kinds(folder.config, config);
  return create_language_model(folder, config);
}

std::unique_ptr<Model> create_qwen3(const HubFolder& folder) {
  GptConfig config = llama_config(folder);
  if (config.head_dim == 0) config.head_dim = 128;  // transformers' default, independent of the width
  config.attention_bias = folder.config.flag("attention_bias", false) ? AttentionBias::all : AttentionBias::none;
  config.qk_norm = true;
  read_layer_kinds(folder.config, config);
  return create_language_model(folder, config);
}

/// Describes which layers have full attention and which a sliding window.
void describe_layers(const GptConfig& c, Json& json) {
  json["use_sliding_window"] = c.window > 0;
  json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
  for (int64_t i = 0; i < c.layers; ++i) {
    const bool slides = c.window > 0 && (c.layer_kinds.empty() || c.layer_kinds[static_cast<size_t>(i)] == "window");
    json["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  }
}

Json describe_qwen2(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "qwen2").settings;
  Refusals refusals("qwen2");
  Json json = llama_json(c, refusals);
  refusals.expect("bias", c.bias, false);
  refusals.expect("attention_bias", c.attention_bias, AttentionBias::inputs);
  refusals.expect("qk_norm", c.qk_norm, false);
  refusals.refuse_unless(c.head_dim == 0 || c.head_dim * c.heads == c.dim, "head_dim", setting_text(c.head_dim), "0");
  refusals.check();
  describe_layers(c, json);
  json["architectures"] = {"Qwen2ForCausalLM"};
  return json;
}

Json describe_qwen3(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "qwen3").settings;
  Refusals refusals("qwen3");
  Json json = llama_json(c, refusals);
  refusals.expect("qk_norm", c.qk_norm, true);
  refusals.expect("bias", c.bias, false);
  refusals.refuse_unless(c.attention_bias != AttentionBias::inputs, "attention_bias", setting_text(c.attention_bias),
                         "none");
  refusals.check();
  json["attention_bias"] = c.attention_bias == AttentionBias::all;
  describe_layers(c, json);
  json["architectures"] = {"Qwen3ForCausalLM"};
  return json;
}

}  // namespace

HubArchitecture qwen2() {
  return {.model_type = "qwen2", .create = create_qwen2, .names = llama_names, .describe = describe_qwen2};
}
HubArchitecture qwen3() {
  return {.model_type = "qwen3", .create = create_qwen3, .names = llama_names, .describe = describe_qwen3};
}

}  // namespace attend::hub
