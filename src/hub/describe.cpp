#include "hub/describe.h"

#include <algorithm>
#include <sstream>

namespace attend::hub {
namespace {

Json rope_json(const GptConfig& config) {
  Json json{{"rope_theta", config.rope_theta}, {"rope_type", "default"}};
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

std::string setting_text(bool value) { return value ? "yes" : "no"; }
std::string setting_text(int64_t value) { return std::to_string(value); }
std::string setting_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

void Refusals::refuse_unless(bool ok, const char* name, const std::string& value, const std::string& instead) {
  if (ok) return;
  settings_.push_back(std::string(name) + "=" + value);
  std::string option(name);
  std::ranges::replace(option, '_', '-');
  options_.push_back(std::string("--").append(option).append(" ").append(instead));
}

void Refusals::check() const {
  if (settings_.empty()) return;
  const auto joined = [](const std::vector<std::string>& parts, const char* between) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
    return text;
  };
  throw SettingsError(std::string(to_) + ": this architecture does not support " + joined(settings_, ", ") +
                          "; a model trained with " + joined(options_, " ") + " can be exported",
                      settings_.size());
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

Json llama_json(const GptConfig& c, Refusals& refusals) {
  refusals.expect("positions", c.positions, Positions::rotary);
  refusals.expect("rms_norm", c.rms_norm, true);
  refusals.expect("gated", c.gated, true);
  refusals.expect("attention_scale", c.attention_scale, 0.0);
  refusals.expect("scale_by_layer", c.scale_by_layer, false);
  refusals.expect("rope_dims", c.rope_dims, int64_t{0});
  refusals.expect("output_bias", c.output_bias, false);
  const Json rope = rope_json(c);
  Json json{{"vocab_size", c.vocab_size},
            {"max_position_embeddings", c.context},
            {"hidden_size", c.dim},
            {"intermediate_size", c.ffn_dim > 0 ? c.ffn_dim : 4 * c.dim},
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
