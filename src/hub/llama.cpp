#include "hub/describe.h"
#include "hub/language.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  GptConfig config = llama_config(folder);
  config.bias = c.flag("mlp_bias", false);
  config.attention_bias = c.flag("attention_bias", false) ? AttentionBias::all : AttentionBias::none;
  return create_language_model(folder, config);
}

Json describe(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "llama").settings;
  Refusals refusals("llama");
  Json json = llama_json(c, refusals);
  refusals.expect("qk_norm", c.qk_norm, false);
  refusals.expect("window", c.window, int64_t{0});
  refusals.refuse_unless(c.attention_bias != AttentionBias::inputs, "attention_bias", setting_text(c.attention_bias),
                         "all");
  refusals.check();
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
