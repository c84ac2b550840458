#pragma once

#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/norm.h"

// The Transformer of "Attention Is All You Need" §3.1, batch first, with PyTorch's options.
namespace attend {

struct TransformerLayerConfig {
  int64_t dim = 512;
  int64_t heads = 8;
  int64_t ffn_dim = 2048;  ///< of the feed-forward network
  Activation activation = Activation::relu;
  bool gated = false;
  bool norm_first = false;                          ///< x + f(norm(x)) instead of norm(x + f(x))
  bool bias = true;                                 ///< on every projection and norm
  std::optional<bool> input_bias{}, output_bias{};  ///< on attention's queries, keys and values; on its output
  bool qk_norm = false;                             ///< see MultiheadAttentionConfig
  double dropout = 0.1;   ///< of attention weights, inside the feed-forward network and on every residual branch
  double eps = 1e-5;      ///< of the norms
  bool rms_norm = false;  ///< RMSNorm in place of LayerNorm
  // Of self-attention: see MultiheadAttentionConfig.
  int64_t key_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  bool alibi = false;
  std::optional<RopeOptions> rope;
  std::optional<double> scale;  ///< of all scores; default 1 / √head_dim
};
Norm create_norm(const TransformerLayerConfig& config);

struct TransformerEncoderLayer {
  TransformerLayerConfig config;
  MultiheadAttention attention;
  FeedForward feed_forward;
  Norm attention_norm, feed_forward_norm;

  static TransformerEncoderLayer create(const TransformerLayerConfig& config, Rng& rng);
  /// x and the result are [batch, length, dim].
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;
  /// Causally, behind what the cache holds; see MultiheadAttention::forward_cached.
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

/// What a decoder layer looks at while generating: its own past, and a memory projected once. Rows of one sequence of
/// the memory stand together: [sequences · n, …] rows look at [sequences, …].
struct DecoderCache {
  KeyValueCache own;
  KeyValues memory;
};

/// A target looks at itself (causally unless told otherwise) and at the encoder's result.
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
  std::optional<TransformerLayerConfig> decoder_layer;  ///< the decoder's, where they differ
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  bool final_norms = true;
};

struct TransformerMasks {
  MaskOptions source{};
  MaskOptions target{.causal = true};
  MaskOptions memory{};
};

/// Encoder and decoder, between embeddings and the output layer: nn.Transformer.
struct Transformer {
  TransformerEncoder encoder;
  TransformerDecoder decoder;

  /// As nn.Transformer: every matrix even within Xavier's bound.
  static Transformer create(const TransformerConfig& config, Rng& rng);
  /// source [batch, sources, dim] and target [batch, targets, dim] give [batch, targets, dim].
  Tensor forward(const Tensor& source, const Tensor& target, const TransformerMasks& masks = {},
                 const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    visit("encoder", &Transformer::encoder);
    visit("decoder", &Transformer::decoder);
  }
};

}  // namespace attend
