#include "hub/language.h"

namespace attend::hub {
namespace {

/// "linear", "llama3", …, from either of its two keys.
std::string scaling_type(const HubConfig& scaling) {
  return scaling.text("rope_type", scaling.text("type", "default"));
}

}  // namespace

void read_rope(const HubConfig& config, GptConfig& result) {
  const HubConfig nested = config.section("rope_parameters");
  if (config.has("rope_parameters") && config.has("rope_scaling") &&
      config.json()["rope_parameters"] != config.json()["rope_scaling"]) {
    config.refuse("'rope_parameters' and 'rope_scaling' differ; delete the wrong one");
  }
  const HubConfig scaling = config.has("rope_parameters") ? nested : config.section("rope_scaling");
  result.positions = Positions::rotary;
  result.rope_theta = nested.number("rope_theta", config.number("rope_theta", 10000, 1e-6), 1e-6);
  const double share = nested.number("partial_rotary_factor", config.number("partial_rotary_factor", 1, 0, 1), 0, 1);
  const int64_t width = result.head_dim > 0 ? result.head_dim : result.dim / result.heads;
  if (share < 1) result.rope_dims = static_cast<int64_t>(static_cast<double>(width) * share);
  if (share < 1 && result.rope_dims < 2) config.refuse("'partial_rotary_factor' leaves no dimensions to rotate");
  config.expect("rope_interleaved", false);
  const std::string type = scaling_type(scaling);
  if (type == "default") return;
  if (type != "linear" && type != "llama3") {
    config.refuse("rotary positions of type '" + type + "' are not supported; expected default, linear or llama3");
  }
  if (!scaling.has("factor")) config.refuse("rotary positions of type '" + type + "' require a 'factor'");
  result.rope_scaling = type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
  result.rope_factor = scaling.number("factor", 1, 1, kMostContext);
  if (type == "linear") return;
  result.rope_low = scaling.number("low_freq_factor", 1, 0, kMostContext);
  result.rope_high = scaling.number("high_freq_factor", 4, 0, kMostContext);
  result.rope_context = scaling.size("original_max_position_embeddings", kMostContext, result.context);
}

GptConfig llama_config(const HubConfig& config) {
  GptConfig result{.vocab_size = config.size("vocab_size", kMostVocab),
                   .context = config.size("max_position_embeddings", kMostContext, 2048),
                   .dim = config.size("hidden_size", kMostWidth),
                   .heads = config.size("num_attention_heads", kMostWidth),
                   .layers = config.size("num_hidden_layers", kMostLayers),
                   .ffn_dim = config.size("intermediate_size", kMostWidth),
                   .activation = config.activation("hidden_act", "silu"),
                   .gated = true,
                   .rms_norm = true,
                   .bias = false,
                   .dropout = 0,
                   .tied = config.flag("tie_word_embeddings", false),
                   .eps = config.number("rms_norm_eps", 1e-6, 0, 1),
                   .head_dim = config.size("head_dim", kMostWidth, 0)};
  result.key_heads = config.size("num_key_value_heads", kMostWidth, result.heads);
  read_rope(config, result);
  config.ignore({"attention_dropout"});  // training alone
  config.ignore({"pretraining_tp"});     // splits the products between devices
  config.ignore({"is_llama_config"});    // a mark of the program that wrote it
  return result;
}

void read_layer_kinds(const HubConfig& config, GptConfig& result) {
  result.layer_kinds.clear();
  for (const std::string& type : config.texts("layer_types")) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.refuse("layers of type '" + type + "' are not supported; expected full_attention or sliding_attention");
    }
    result.layer_kinds.push_back(type == "full_attention" ? "full" : "window");
  }
  const bool is_said = config.json().contains("sliding_window");  // null means none
  const int64_t window = config.size("sliding_window", kMostContext, is_said ? 0 : kUsualWindow);
  const bool is_given = !result.layer_kinds.empty();
  if (is_given && std::ssize(result.layer_kinds) != result.layers) {
    config.refuse("'layer_types' has " + std::to_string(result.layer_kinds.size()) + " entries for " +
                  std::to_string(result.layers) + " layers");
  }
  const int64_t full = config.count("max_window_layers", kNoLimit, 28);
  if (!config.flag("use_sliding_window", false)) return result.layer_kinds.clear();
  result.window = window;
  if (is_given) return;
  for (int64_t i = 0; i < result.layers; ++i) result.layer_kinds.push_back(i < full ? "full" : "window");
}

}  // namespace attend::hub
