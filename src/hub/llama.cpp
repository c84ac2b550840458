#include "hub/describe.h"
#include "hub/language.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  GptConfig config = llama_config(c);
  config.bias = c.flag("mlp_bias", false);
  config.attention_bias = c.flag("attention_bias", false) ? AttentionBias::all : AttentionBias::none;
  return create_language_model(folder, config);
}

nlohmann::ordered_json describe(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "llama").settings;
  nlohmann::ordered_json json = llama_json(c, "llama");
  require_setting(!c.qk_norm, "llama", "qk_norm");
  require_setting(c.window == 0, "llama", "a window");
  require_setting(c.attention_bias != AttentionBias::inputs, "llama", "biases on the inputs of attention alone");
  const bool by_bias = c.attention_bias == AttentionBias::as_others && c.bias;
  json["attention_bias"] = by_bias || c.attention_bias == AttentionBias::all;
  json["mlp_bias"] = c.bias;
  json["architectures"] = {"LlamaForCausalLM"};
  return json;
}

}  // namespace

HubArchitecture llama() {
  return {.model_type = "llama", .create = create, .names = llama_names, .describe = describe};
}

}  // namespace attend::hub
