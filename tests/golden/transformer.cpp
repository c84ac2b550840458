#include "attend/nn/transformer.h"

#include "registry.h"
#include "torch_modules.h"

namespace attend::golden {
namespace {

TransformerLayerConfig layer_config(Case& c) {
  require<FormatError>(c.options().number("dropout", 0) == 0, "options: dropout cannot be compared with a reference");
  return {.heads = c.options().integer("num_heads", 1),
          .activation = torch_activation(c.options().text("activation", "relu")),
          .norm_first = c.options().flag("norm_first"),
          .bias = c.options().flag("bias", true),
          .dropout = 0,
          .eps = c.options().number("layer_norm_eps", 1e-5)};
}

FeedForward feed_forward(Case& c, const std::string& prefix, const TransformerLayerConfig& config) {
  FeedForward result;
  result.activation = config.activation;
  result.up = torch_linear(c, prefix + "linear1");
  result.down = torch_linear(c, prefix + "linear2");
  c.options().require_integer("d_model", result.up.weight.dim(1));
  c.options().require_integer("feed_forward", result.up.weight.dim(0));
  return result;
}

TransformerEncoderLayer encoder_layer(Case& c, const std::string& prefix, const TransformerLayerConfig& config) {
  return {.config = config,
          .attention = torch_attention(c, prefix + "self_attn.", {.heads = config.heads}),
          .feed_forward = feed_forward(c, prefix, config),
          .attention_norm = torch_layer_norm(c, prefix + "norm1", config.eps),
          .feed_forward_norm = torch_layer_norm(c, prefix + "norm2", config.eps)};
}

TransformerDecoderLayer decoder_layer(Case& c, const std::string& prefix, const TransformerLayerConfig& config) {
  return {.config = config,
          .attention = torch_attention(c, prefix + "self_attn.", {.heads = config.heads}),
          .cross_attention = torch_attention(c, prefix + "multihead_attn.", {.heads = config.heads}),
          .feed_forward = feed_forward(c, prefix, config),
          .attention_norm = torch_layer_norm(c, prefix + "norm1", config.eps),
          .cross_attention_norm = torch_layer_norm(c, prefix + "norm2", config.eps),
          .feed_forward_norm = torch_layer_norm(c, prefix + "norm3", config.eps)};
}

/// Reads the layers `prefix`layers.0, 1, …, as many as there are, and the final norm if there is one.
template <class Stack, class Layer>
Stack stack_of(Case& c, const std::string& prefix, const TransformerLayerConfig& config, Layer&& layer) {
  Stack result;
  for (int64_t i = 0;; ++i) {
    const std::string name = prefix + "layers." + std::to_string(i) + ".";
    if (!c.has_parameter(name + "linear1.weight")) break;
    result.layers.push_back(layer(c, name, config));
  }
  if (c.has_parameter(prefix + "norm.weight")) result.norm = torch_layer_norm(c, prefix + "norm", config.eps);
  return result;
}
TransformerEncoder encoder(Case& c, const std::string& prefix, const TransformerLayerConfig& config) {
  return stack_of<TransformerEncoder>(c, prefix, config, encoder_layer);
}
TransformerDecoder decoder(Case& c, const std::string& prefix, const TransformerLayerConfig& config) {
  return stack_of<TransformerDecoder>(c, prefix, config, decoder_layer);
}

MaskOptions masks(Case& c, const std::string& side, const TransformerLayerConfig& config) {
  MaskOptions result =
      torch_masks(c, {.mask = side + "_mask", .keys = side + "_key_padding_mask", .heads = config.heads});
  result.causal = c.options().flag(side + "_causal");
  return result;
}
DecoderMasks decoder_masks(Case& c, const TransformerLayerConfig& config) {
  return {.target = masks(c, "tgt", config), .memory = masks(c, "memory", config)};
}

void check_encoder_layer(Case& c) {
  const TransformerLayerConfig config = layer_config(c);
  c.output("y", encoder_layer(c, "", config).forward(c.input("src"), masks(c, "src", config)));
}

void check_decoder_layer(Case& c) {
  const TransformerLayerConfig config = layer_config(c);
  c.output("y", decoder_layer(c, "", config).forward(c.input("tgt"), c.input("memory"), decoder_masks(c, config)));
}

void check_encoder(Case& c) {
  const TransformerLayerConfig config = layer_config(c);
  const TransformerEncoder module = encoder(c, "", config);
  c.options().require_integer("layers", static_cast<int64_t>(module.layers.size()));
  c.output("y", module.forward(c.input("src"), masks(c, "src", config)));
}

void check_decoder(Case& c) {
  const TransformerLayerConfig config = layer_config(c);
  const TransformerDecoder module = decoder(c, "", config);
  c.options().require_integer("layers", static_cast<int64_t>(module.layers.size()));
  c.output("y", module.forward(c.input("tgt"), c.input("memory"), decoder_masks(c, config)));
}

void check_transformer(Case& c) {
  const TransformerLayerConfig config = layer_config(c);
  const Transformer module{encoder(c, "encoder.", config), decoder(c, "decoder.", config)};
  c.options().require_integer("encoder_layers", static_cast<int64_t>(module.encoder.layers.size()));
  c.options().require_integer("decoder_layers", static_cast<int64_t>(module.decoder.layers.size()));
  require<FormatError>(
      c.options().flag("final_norms", module.decoder.norm.has_value()) == module.decoder.norm.has_value(),
      "options: final_norms does not agree with the parameters");
  const DecoderMasks sides = decoder_masks(c, config);
  c.output("y", module.forward(c.input("src"), c.input("tgt"),
                               {.source = masks(c, "src", config), .target = sides.target, .memory = sides.memory}));
}

}  // namespace

void add_transformer(Registry& registry) {
  registry["transformer_encoder_layer"] = check_encoder_layer;
  registry["transformer_decoder_layer"] = check_decoder_layer;
  registry["transformer_encoder"] = check_encoder;
  registry["transformer_decoder"] = check_decoder;
  registry["transformer"] = check_transformer;
}

}  // namespace attend::golden
