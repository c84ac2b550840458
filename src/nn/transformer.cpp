#include "attend/nn/transformer.h"

#include "attend/nn/init.h"
#include "attend/ops/arithmetic.h"
#include "attend/ops/shape.h"
#include "nn/generation_step.h"

namespace attend {
namespace {

/// The settings common to self-attention and cross-attention.
MultiheadAttentionConfig attention_config(const TransformerLayerConfig& config) {
  return {.dim = config.dim,
          .heads = config.heads,
          .key_heads = config.key_heads,
          .head_dim = config.head_dim,
          .bias = config.input_bias.value_or(config.bias),
          .output_bias = config.output_bias.value_or(config.bias),
          .qk_norm = config.qk_norm,
          .qk_norm_eps = config.eps,
          .dropout = config.dropout,
          .scale = config.scale};
}

MultiheadAttention create_cross_attention(const TransformerLayerConfig& config, Rng& rng) {
  return MultiheadAttention::create(attention_config(config), rng);
}

MultiheadAttention create_attention(const TransformerLayerConfig& config, Rng& rng) {
  MultiheadAttentionConfig own = attention_config(config);
  own.window = config.window;
  own.alibi = config.alibi;
  own.rope = config.rope;
  return MultiheadAttention::create(own, rng);
}

FeedForward create_feed_forward(const TransformerLayerConfig& config, Rng& rng) {
  return FeedForward::create({.dim = config.dim,
                              .ffn_dim = config.ffn_dim,
                              .activation = config.activation,
                              .gated = config.gated,
                              .bias = config.bias,
                              .dropout = config.dropout},
                             rng);
}

/// A residual branch: norm(x + f(x)), or x + f(norm(x)) with norm_first. `name` is the branch's name in observer paths.
/// f(x, residual) computes the branch, and adds the residual unless it is empty.
template <class F>
Tensor residual(const TransformerLayerConfig& config, const Norm& norm, const Tensor& x, std::string_view name,
                const ForwardPass& pass, F&& f) {
  // Activations of 16 bits are those of a training. In other types the sum is always an op of its own, so that an
  // observer changes no bits.
  const bool is_plain = !pass.observer && !(pass.rng && config.dropout > 0);  // nothing between the branch and the sum
  if (is_plain && size_of(x.dtype()) == 2) return config.norm_first ? f(norm.forward(x), x) : norm.forward(f(x, x));
  const ObservedPart part(pass.observer, name);
  if (config.norm_first) {
    const Tensor branch = pass.show("branch", f(pass.show("normed", norm.forward(x)), Tensor{}));
    return pass.show("residual", x + drop(branch, config.dropout, pass));
  }
  const Tensor branch = pass.show("branch", f(x, Tensor{}));
  return pass.show("normed", norm.forward(pass.show("residual", x + drop(branch, config.dropout, pass))));
}

Tensor added(const Tensor& residual, const Tensor& branch) { return residual ? residual + branch : branch; }

/// The layer's output if the observer knows it, so that the layer need not be computed.
Tensor known_output(const ForwardPass& pass) { return pass.observer ? pass.observer->known_output() : Tensor{}; }

/// A layer's forward pass with copies of all its inputs, which live until the backward pass.
template <class Layer, class... Inputs>
auto with_inputs(const Layer& layer, const Inputs&... inputs) {
  return [layer, inputs...](const ForwardPass& pass) { return layer.forward(inputs..., pass); };
}

/// Xavier initialisation of the matrices that are initialised like a Linear: attention's output and the feed-forward
/// network. Attention's other projections have Xavier initialisation already.
void reset_xavier(MultiheadAttention& attention, Rng& rng) {
  attention.output.weight = xavier_parameter(attention.output.weight.shape(), rng);
}
void reset_xavier(FeedForward& feed_forward, Rng& rng) {
  feed_forward.up.weight = xavier_parameter(feed_forward.up.weight.shape(), rng);
  feed_forward.down.weight = xavier_parameter(feed_forward.down.weight.shape(), rng);
  if (feed_forward.gate) feed_forward.gate->weight = xavier_parameter(feed_forward.gate->weight.shape(), rng);
}

}  // namespace

Norm create_norm(const TransformerLayerConfig& config) {
  if (config.rms_norm) return RMSNorm::create({.dim = config.dim, .eps = config.eps});
  return LayerNorm::create({.dim = config.dim, .eps = config.eps, .bias = config.bias});
}

TransformerEncoderLayer TransformerEncoderLayer::create(const TransformerLayerConfig& config, Rng& rng) {
  return {.config = config,
          .attention = create_attention(config, rng),
          .feed_forward = create_feed_forward(config, rng),
          .attention_norm = create_norm(config),
          .feed_forward_norm = create_norm(config)};
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const MaskOptions& masks, const ForwardPass& pass) const {
  const Tensor attended =
      residual(config, attention_norm, x, "attention", pass, [&](const Tensor& in, const Tensor& before) {
        return attention.forward_traced({in, in, in, before}, masks, pass).output;
      });
  return residual(config, feed_forward_norm, attended, "feed_forward", pass,
                  [&](const Tensor& in, const Tensor& before) { return feed_forward.forward(in, pass, before); });
}

Tensor TransformerEncoderLayer::forward_cached(const Tensor& x, KeyValueCache& cache, const CacheStep& step,
                                               const ForwardPass& pass) const {
  if (is_fused_step(step, pass)) {
    const Tensor own =
        step_residual(config, attention_norm, x, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
          return step_attention(attention, in, norm, before, cache, step);
        });
    return step_residual(config, feed_forward_norm, own, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
      return step_feed_forward(feed_forward, in, norm, before);
    });
  }
  const Tensor attended =
      residual(config, attention_norm, x, "attention", pass, [&](const Tensor& in, const Tensor& before) {
        return added(before, attention.forward_cached(in, cache, step, pass));
      });
  return residual(config, feed_forward_norm, attended, "feed_forward", pass,
                  [&](const Tensor& in, const Tensor& before) { return feed_forward.forward(in, pass, before); });
}

TransformerDecoderLayer TransformerDecoderLayer::create(const TransformerLayerConfig& config, Rng& rng) {
  return {.config = config,
          .attention = create_attention(config, rng),
          .cross_attention = create_cross_attention(config, rng),
          .feed_forward = create_feed_forward(config, rng),
          .attention_norm = create_norm(config),
          .cross_attention_norm = create_norm(config),
          .feed_forward_norm = create_norm(config)};
}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                        const ForwardPass& pass) const {
  const Tensor own =
      residual(config, attention_norm, x, "attention", pass, [&](const Tensor& in, const Tensor& before) {
        return attention.forward_traced({in, in, in, before}, masks.target, pass).output;
      });
  const Tensor crossed =
      residual(config, cross_attention_norm, own, "cross_attention", pass, [&](const Tensor& in, const Tensor& before) {
        return cross_attention.forward_traced({in, memory, memory, before}, masks.memory, pass).output;
      });
  return residual(config, feed_forward_norm, crossed, "feed_forward", pass,
                  [&](const Tensor& in, const Tensor& before) { return feed_forward.forward(in, pass, before); });
}

Tensor TransformerDecoderLayer::forward_cached(const Tensor& x, DecoderCache& cache, const CacheStep& step,
                                               const MaskOptions& memory_masks, const ForwardPass& pass) const {
  if (is_fused_step(step, pass)) {
    const Tensor own =
        step_residual(config, attention_norm, x, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
          return step_attention(attention, in, norm, before, cache.own, step);
        });
    const Tensor crossed =
        step_residual(config, cross_attention_norm, own, [&](const Tensor& in, const Norm* norm, const Tensor& before) {
          return step_memory(cross_attention, in, norm, before, cache.memory, memory_masks);
        });
    return step_residual(config, feed_forward_norm, crossed,
                         [&](const Tensor& in, const Norm* norm, const Tensor& before) {
                           return step_feed_forward(feed_forward, in, norm, before);
                         });
  }
  const Tensor own =
      residual(config, attention_norm, x, "attention", pass, [&](const Tensor& in, const Tensor& before) {
        return added(before, attention.forward_cached(in, cache.own, step, pass));
      });
  const Tensor crossed =
      residual(config, cross_attention_norm, own, "cross_attention", pass, [&](const Tensor& in, const Tensor& before) {
        // The n rows that share a row of the memory become n queries of one sequence.
        const Tensor queries = reshape(in, {cache.memory.keys.dim(0), -1, in.dim(-1)});
        return added(before,
                     reshape(cross_attention.forward_memory(queries, cache.memory, memory_masks, pass), in.shape()));
      });
  return residual(config, feed_forward_norm, crossed, "feed_forward", pass,
                  [&](const Tensor& in, const Tensor& before) { return feed_forward.forward(in, pass, before); });
}

TransformerEncoder TransformerEncoder::create(const TransformerStackConfig& config, Rng& rng) {
  TransformerEncoder result;
  for (int64_t i = 0; i < config.layers; ++i)
    result.layers.push_back(TransformerEncoderLayer::create(config.layer, rng));
  if (config.final_norm) result.norm = create_norm(config.layer);
  return result;
}

Tensor TransformerEncoder::forward(const Tensor& x, const MaskOptions& masks, const ForwardPass& pass) const {
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) {
    const ObservedPart part(pass.observer, "layers", i);
    const Tensor in = pass.show("input", y), known = known_output(pass);
    y = pass.show("output", known            ? known
                            : pass.recompute ? recomputed_layer(pass, with_inputs(layers[i], in, masks))
                                             : layers[i].forward(in, masks, pass));
  }
  return pass.show("final", norm ? norm->forward(y) : y);
}

TransformerDecoder TransformerDecoder::create(const TransformerStackConfig& config, Rng& rng) {
  TransformerDecoder result;
  for (int64_t i = 0; i < config.layers; ++i)
    result.layers.push_back(TransformerDecoderLayer::create(config.layer, rng));
  if (config.final_norm) result.norm = create_norm(config.layer);
  return result;
}

Tensor TransformerDecoder::forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                   const ForwardPass& pass) const {
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) {
    const ObservedPart part(pass.observer, "layers", i);
    const Tensor in = pass.show("input", y), known = known_output(pass);
    y = pass.show("output", known            ? known
                            : pass.recompute ? recomputed_layer(pass, with_inputs(layers[i], in, memory, masks))
                                             : layers[i].forward(in, memory, masks, pass));
  }
  return pass.show("final", norm ? norm->forward(y) : y);
}

Transformer Transformer::create(const TransformerConfig& config, Rng& rng) {
  Transformer result;
  result.encoder = TransformerEncoder::create(
      {.layer = config.layer, .layers = config.encoder_layers, .final_norm = config.final_norms}, rng);
  result.decoder = TransformerDecoder::create({.layer = config.decoder_layer.value_or(config.layer),
                                               .layers = config.decoder_layers,
                                               .final_norm = config.final_norms},
                                              rng);
  for (TransformerEncoderLayer& layer : result.encoder.layers) {
    reset_xavier(layer.attention, rng);
    reset_xavier(layer.feed_forward, rng);
  }
  for (TransformerDecoderLayer& layer : result.decoder.layers) {
    reset_xavier(layer.attention, rng);
    reset_xavier(layer.cross_attention, rng);
    reset_xavier(layer.feed_forward, rng);
  }
  return result;
}

Tensor Transformer::forward(const Tensor& source, const Tensor& target, const TransformerMasks& masks,
                            const ForwardPass& pass) const {
  Tensor memory;
  {
    const ObservedPart part(pass.observer, "encoder");
    memory = encoder.forward(source, masks.source, pass);
  }
  const ObservedPart part(pass.observer, "decoder");
  return decoder.forward(target, memory, {.target = masks.target, .memory = masks.memory}, pass);
}

}  // namespace attend
