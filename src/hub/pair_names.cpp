#include "hub/pair_names.h"

#include <algorithm>

#include "hub/encoder_heads.h"
#include "hub/tied_output.h"

namespace attend::hub {
namespace {

void add_attention(NameMap& map, const std::string& theirs, const std::string& ours) {
  map.add_both(theirs + ".q_proj", ours + ".query");
  map.add_both(theirs + ".k_proj", ours + ".key");
  map.add_both(theirs + ".v_proj", ours + ".value");
  map.add_both(theirs + ".out_proj", ours + ".output");
}

void add_layers(NameMap& map, const std::string& stack) {
  const std::string layer = stack + ".layers.{}.";
  add_attention(map, layer + "self_attn", layer + "attention");
  map.add_both(layer + "self_attn_layer_norm", layer + "attention_norm");
  map.add_both(layer + "fc1", layer + "feed_forward.up");
  map.add_both(layer + "fc2", layer + "feed_forward.down");
  map.add_both(layer + "final_layer_norm", layer + "feed_forward_norm");
  map.add_both(stack + ".layer_norm", stack + ".norm");
}

}  // namespace

void expect_architecture(const HubFolder& folder, std::initializer_list<const char*> known) {
  const std::string architecture = folder.config.architecture();
  if (architecture.empty() || std::ranges::find(known, architecture) != known.end()) return;
  std::string all;
  for (const char* name : known) all += (all.empty() ? "" : ", ") + std::string(name);
  folder.config.refuse("architecture " + architecture + " is not supported; expected one of " + all);
}

void check_waves(const HubFolder& folder, const TransformerModelConfig& config) {
  constexpr double kMostWaves = 1 << 26;
  if (static_cast<double>(config.context) * static_cast<double>(config.dim) > kMostWaves) {
    folder.config.refuse("'max_position_embeddings' " + std::to_string(config.context) + " is too large");
  }
}

std::string shared_table(const HubFolder& folder, const std::string& prefix) {
  for (const char* name : {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    if (has_tensor(folder, prefix, name)) return name;
  }
  return "shared.weight";
}

void expect_pair(const HubConfig& config) {
  config.expect("is_encoder_decoder", true);
  config.expect("is_decoder", false);
  config.ignore({"classifier_dropout", "classif_dropout", "problem_type"});  // other heads
}

void expect_layout(const HubConfig& config, const TransformerModelConfig& made) {
  config.expect("normalize_before", made.norm_first);
  config.expect("add_final_layer_norm", made.norm_first);
  config.expect("normalize_embedding", made.embedding_norm);
  config.expect("static_position_embeddings", made.positions == Positions::sinusoidal);
  config.expect("do_blenderbot_90_layernorm", false);
  config.ignore({"add_bias_logits"});  // the files have the bias, or not
}

TransformerModelConfig pair_config(const HubFolder& folder) {
  const HubConfig& c = folder.config;
  expect_pair(c);
  c.ignore({"attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop"});  // training alone
  // Another name for the layers of the encoder, which pruned models did not keep up to date. The files have as many
  // layers as are read, or are refused.
  c.ignore({"num_hidden_layers"});
  TransformerModelConfig config{
      .vocab_size = c.size("vocab_size", kMostVocab),
      .dim = c.size("d_model", kMostWidth, 1024),
      .heads = c.size("encoder_attention_heads", kMostWidth, 16),
      .ffn_dim = c.size("encoder_ffn_dim", kMostWidth, 4096),
      .encoder_layers = c.size("encoder_layers", kMostLayers, 12),
      .decoder_layers = c.size("decoder_layers", kMostLayers, 12),
      .decoder_heads = c.size("decoder_attention_heads", kMostWidth, 16),
      .decoder_ffn_dim = c.size("decoder_ffn_dim", kMostWidth, 4096),
      .activation = c.activation("activation_function", "gelu"),
      .scale_embedding = c.flag("scale_embedding", false),
      .tied = is_output_tied(folder, {"lm_head.weight", "model.", shared_table(folder, "model.")}, true),
      .output_bias = folder.weights.contains("final_logits_bias"),
      .dropout = c.number("dropout", 0.1, 0, kMostDropout),
      .context = c.size("max_position_embeddings", kMostContext, 1024)};
  expect_other_names(c, {{"hidden_size", config.dim}, {"num_attention_heads", config.heads}});
  return config;
}

NameMap pair_names(const HubFolder& folder, const TransformerModel& model) {
  NameMap map{.prefix = "model."};
  if (model.settings.shared) {
    map.add(shared_table(folder, map.prefix), "embedding.weight");
  } else {
    map.add("encoder.embed_tokens.weight", "embedding.weight");
    map.add("decoder.embed_tokens.weight", "target_embedding.weight");
  }
  add_layers(map, "encoder");
  add_layers(map, "decoder");
  add_attention(map, "decoder.layers.{}.encoder_attn", "decoder.layers.{}.cross_attention");
  map.add_both("decoder.layers.{}.encoder_attn_layer_norm", "decoder.layers.{}.cross_attention_norm");
  if (!model.settings.tied) {
    add_bare_tensor(map, "lm_head.weight", "output.weight");
    // transformers then expects separate tables for both sides
    if (model.settings.shared) {
      map.copies = {{"model.encoder.embed_tokens.weight", "model.shared.weight"},
                    {"model.decoder.embed_tokens.weight", "model.shared.weight"}};
    }
  }
  add_bare_tensor(map, "final_logits_bias", "output.bias");
  map.rules.back().layout = Layout::one_row;
  map.repeats = {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"};
  return map;
}

}  // namespace attend::hub
