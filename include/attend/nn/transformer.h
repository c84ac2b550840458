#pragma once

#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/norm.h"

// The Transformer of "Attention Is All You Need" §3.1, with PyTorch's options. Batch first.
namespace attend {

struct TransformerLayerConfig {
  int64_t dim = 512;
  int64_t heads = 8;
  int64_t ffn_dim = 2048;  ///< width of the feed-forward network
  Activation activation = Activation::relu;
  bool gated = false;
  bool norm_first = false;                          ///< x + f(norm(x)) instead of norm(x + f(x))
  bool bias = true;                                 ///< biases on projections and norms
  std::optional<bool> input_bias{}, output_bias{};  ///< of attention: query, key and value; output. Default: `bias`
  bool qk_norm = false;                             ///< see MultiheadAttentionConfig
  double dropout = 0.1;   ///< on attention weights, inside the feed-forward network and on every residual branch
  double eps = 1e-5;      ///< epsilon in norms
  bool rms_norm = false;  ///< RMSNorm instead of LayerNorm
  // Self-attention: see MultiheadAttentionConfig.
  int64_t key_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  bool alibi = false;
  std::optional<RopeOptions> rope;
  std::optional<double> scale;  ///< factor of all attention scores; default 1 / √head_dim
};
/// The norm that a layer's config selects.
Norm create_norm(const TransformerLayerConfig& config);

struct TransformerEncoderLayer {
  TransformerLayerConfig config;
  MultiheadAttention attention;
  FeedForward feed_forward;
  Norm attention_norm, feed_forward_norm;

  static TransformerEncoderLayer create(const TransformerLayerConfig& config, Rng& rng);
  /// x and the result are [batch, length, dim].
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;
  /// forward() with causal attention for new tokens that follow the cached ones; see
  /// MultiheadAttention::forward_cached.
  Tensor forward_cached(const Tensor& x, KeyValueCache& cache, const CacheStep& step,
                        const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    using Self = TransformerEncoderLayer;
    visit("attention", &Self::attention);
    visit("feed_forward", &Self::feed_forward);
    visit("attention_norm", &Self::attention_norm);
    visit("feed_forward_norm", &Self::feed_forward_norm);
  }
};

/// The caches of a decoder layer in generation: keys and values of the generated tokens, and those of the memory. If
/// the memory has [sequences, …] rows, x has [sequences · n, …] rows; n consecutive rows share a row of the memory.
struct DecoderCache {
  KeyValueCache own;
  KeyValues memory;
};

/// The masks of a decoder: self-attention of the target, causal by default, and cross-attention to the encoder's
/// output.
struct DecoderMasks {
  MaskOptions target{.causal = true};
  MaskOptions memory{};
};

struct TransformerDecoderLayer {
  TransformerLayerConfig config;
  MultiheadAttention attention, cross_attention;
  FeedForward feed_forward;
  Norm attention_norm, cross_attention_norm, feed_forward_norm;

  static TransformerDecoderLayer create(const TransformerLayerConfig& config, Rng& rng);
  /// x and the result are [batch, targets, dim], memory [batch, sources, dim].
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 const ForwardPass& pass = {}) const;
  Tensor forward_cached(const Tensor& x, DecoderCache& cache, const CacheStep& step, const MaskOptions& memory_masks,
                        const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    using Self = TransformerDecoderLayer;
    visit("attention", &Self::attention);
    visit("cross_attention", &Self::cross_attention);
    visit("feed_forward", &Self::feed_forward);
    visit("attention_norm", &Self::attention_norm);
    visit("cross_attention_norm", &Self::cross_attention_norm);
    visit("feed_forward_norm", &Self::feed_forward_norm);
  }
};

struct TransformerStackConfig {
  TransformerLayerConfig layer;
  int64_t layers = 6;
  bool final_norm = true;
};

struct TransformerEncoder {
  std::vector<TransformerEncoderLayer> layers;
  std::optional<Norm> norm;

  static TransformerEncoder create(const TransformerStackConfig& config, Rng& rng);
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    visit("layers", &TransformerEncoder::layers);
    visit("norm", &TransformerEncoder::norm);
  }
};

struct TransformerDecoder {
  std::vector<TransformerDecoderLayer> layers;
  std::optional<Norm> norm;

  static TransformerDecoder create(const TransformerStackConfig& config, Rng& rng);
  Tensor forward(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                 const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    visit("layers", &TransformerDecoder::layers);
    visit("norm", &TransformerDecoder::norm);
  }
};

struct TransformerConfig {
  TransformerLayerConfig layer;
  std::optional<TransformerLayerConfig> decoder_layer;  ///< config of the decoder's layers; default: same as `layer`
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  bool final_norms = true;
};

struct TransformerMasks {
  MaskOptions source{};
  MaskOptions target{.causal = true};
  MaskOptions memory{};
};

/// Encoder and decoder without embeddings and output layer, as PyTorch's nn.Transformer.
struct Transformer {
  TransformerEncoder encoder;
  TransformerDecoder decoder;

  /// Every matrix is uniform within Xavier's bound, as in nn.Transformer.
  static Transformer create(const TransformerConfig& config, Rng& rng);
  /// Maps source [batch, sources, dim] and target [batch, targets, dim] to [batch, targets, dim].
  Tensor forward(const Tensor& source, const Tensor& target, const TransformerMasks& masks = {},
                 const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    visit("encoder", &Transformer::encoder);
    visit("decoder", &Transformer::decoder);
  }
};

}  // namespace attend
