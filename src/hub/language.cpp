#include "hub/language.h"

#include "hub/tied_output.h"
#include "io/printable.h"

namespace attend::hub {

std::unique_ptr<Model> create_language_model(const HubFolder& folder, const GptConfig& config) {
  const std::string name = folder.config.architecture();
  const bool writes = name.empty() || name.ends_with("ForCausalLM") || name.ends_with("Model");
  if (!writes)
    folder.config.refuse("architecture " + in_quotes(name) +
                         " is not supported; expected a language model (…ForCausalLM)");
  folder.config.expect("is_encoder_decoder", false);
  folder.config.expect("is_causal", true);
  folder.config.ignore({"is_decoder", "problem_type"});  // a language model is a decoder and has no classes
  try {
    Rng rng;
    return Gpt::create(config, rng);
  } catch (const ShapeError& error) {
    folder.config.refuse(error.what());
  }
}

GptConfig llama_config(const HubFolder& folder) {
  GptConfig config = llama_config(folder.config);
  config.tied = is_output_tied(folder, {"lm_head.weight", "model.", "embed_tokens.weight"}, false);
  config.output_bias = folder.weights.contains("lm_head.bias");
  return config;
}

NameMap llama_names(const HubFolder&, const Model& model) {
  NameMap map{.prefix = "model."};
  const std::string theirs = "layers.{}.", ours = "stack.layers.{}.";
  map.add("embed_tokens.weight", "embedding.weight");
  map.add_both(theirs + "input_layernorm", ours + "attention_norm");
  map.add_both(theirs + "self_attn.q_proj", ours + "attention.query");
  map.add_both(theirs + "self_attn.k_proj", ours + "attention.key");
  map.add_both(theirs + "self_attn.v_proj", ours + "attention.value");
  map.add_both(theirs + "self_attn.o_proj", ours + "attention.output");
  map.add(theirs + "self_attn.q_norm.weight", ours + "attention.query_norm.weight");
  map.add(theirs + "self_attn.k_norm.weight", ours + "attention.key_norm.weight");
  map.add_both(theirs + "post_attention_layernorm", ours + "feed_forward_norm");
  map.add_both(theirs + "mlp.gate_proj", ours + "feed_forward.gate");
  map.add_both(theirs + "mlp.up_proj", ours + "feed_forward.up");
  map.add_both(theirs + "mlp.down_proj", ours + "feed_forward.down");
  map.add_both("norm", "stack.norm");
  map.rules.push_back({.theirs = "lm_head.weight", .ours = {"output.weight"}, .is_bare = true});
  map.rules.push_back({.theirs = "lm_head.bias", .ours = {"output_bias"}, .is_bare = true});
  map.ignored = {"layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"};
  if (dynamic_cast<const Gpt&>(model).settings.tied) map.ignored.push_back("lm_head.weight");
  return map;
}

}  // namespace attend::hub
