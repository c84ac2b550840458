#include "hub/describe.h"
#include "hub/language.h"

namespace attend::hub {
namespace {

std::unique_ptr<Model> create(const HubFolder& folder) {
  GptConfig config = llama_config(folder);
  // Without the key, the window is that of the first models; null means no window.
  const bool is_said = folder.config.json().contains("sliding_window");
  folder.config.expect("attention_bias", false);
  config.window = folder.config.size("sliding_window", kMostContext, is_said ? 0 : kUsualWindow);
  return create_language_model(folder, config);
}

Json describe(const Model& model) {
  const GptConfig& c = model_of<Gpt>(model, "mistral").settings;
  Refusals refusals("mistral");
  Json json = llama_json(c, refusals);
  refusals.expect("bias", c.bias, false);
  refusals.refuse_unless(c.attention_bias == AttentionBias::as_others || c.attention_bias == AttentionBias::none,
                         "attention_bias", setting_text(c.attention_bias), "none");
  refusals.expect("qk_norm", c.qk_norm, false);
  refusals.refuse_unless(c.layer_kinds.empty(), "layer_kinds", "[…]", "[]");
  refusals.check();
  json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
  json["architectures"] = {"MistralForCausalLM"};
  return json;
}

}  // namespace

HubArchitecture mistral() {
  return {.model_type = "mistral", .create = create, .names = llama_names, .describe = describe};
}

}  // namespace attend::hub
