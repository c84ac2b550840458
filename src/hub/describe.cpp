#include "hub/describe.h"

namespace attend::hub {
namespace {

nlohmann::ordered_json rope_json(const GptConfig& config) {
  nlohmann::ordered_json json{{"rope_theta", config.rope_theta}, {"rope_type", "default"}};
  if (config.rope_scaling == RopeScaling::none) return json;
  json["factor"] = config.rope_factor;
  json["rope_type"] = "linear";
  if (config.rope_scaling == RopeScaling::linear) return json;
  json["rope_type"] = "llama3";
  json["low_freq_factor"] = config.rope_low;
  json["high_freq_factor"] = config.rope_high;
  json["original_max_position_embeddings"] = config.rope_context;
  return json;
}

}  // namespace

void require_setting(bool ok, const char* to, const std::string& setting) {
  require<Error>(ok, to, ": the model has ", setting, ", which this architecture has not");
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_new";
    case Activation::silu:
      return "silu";
    case Activation::tanh:
      return "tanh";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::quick_gelu:
      return "quick_gelu";
  }
  return "";
}

nlohmann::ordered_json llama_json(const GptConfig& c, const char* to) {
  const auto refuse_unless = [&](bool ok, const char* setting) { require_setting(ok, to, setting); };
  refuse_unless(c.positions == Positions::rotary, "positions other than rotary");
  refuse_unless(c.rms_norm, "LayerNorm instead of RMSNorm");
  refuse_unless(c.gated, "a feed-forward network without gate");
  refuse_unless(c.attention_scale == 0 && !c.scale_by_layer, "a scale of its own for attention");
  refuse_unless(c.rope_dims == 0, "rope_dims");
  const nlohmann::ordered_json rope = rope_json(c);
  nlohmann::ordered_json json{{"vocab_size", c.words},
                              {"max_position_embeddings", c.context},
                              {"hidden_size", c.dim},
                              {"intermediate_size", c.hidden > 0 ? c.hidden : 4 * c.dim},
                              {"num_hidden_layers", c.layers},
                              {"num_attention_heads", c.heads},
                              {"num_key_value_heads", c.key_heads > 0 ? c.key_heads : c.heads},
                              {"head_dim", c.head_dim > 0 ? c.head_dim : c.dim / c.heads},
                              {"hidden_act", activation_name(c.activation)},
                              {"rms_norm_eps", c.eps},
                              {"tie_word_embeddings", c.tied},
                              {"attention_dropout", 0.0},
                              {"rope_parameters", rope},
                              {"rope_theta", c.rope_theta}};
  if (c.rope_scaling != RopeScaling::none) json["rope_scaling"] = rope;
  return json;
}

}  // namespace attend::hub
