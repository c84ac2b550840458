#pragma once

#include "attend/nn/multihead_attention.h"
#include "attend/nn/norm.h"

namespace attend {

struct SelfAttentionBlockConfig {
  MultiheadAttentionConfig attention;
  int64_t out = 0;  ///< width of the output; 0 = attention.dim
  double eps = 1e-5;
};

/// A minimal self-attention block: linear(layer_norm(x + attention(x))).
struct SelfAttentionBlock {
  MultiheadAttention attention;
  LayerNorm layer_norm;
  Linear linear;

  static SelfAttentionBlock create(const SelfAttentionBlockConfig& config, Rng& rng);
  Tensor forward(const Tensor& x, const MaskOptions& masks = {}, const ForwardPass& pass = {}) const;

  static void fields(auto&& visit) {
    using Self = SelfAttentionBlock;
    visit("attention", &Self::attention);
    visit("layer_norm", &Self::layer_norm);
    visit("linear", &Self::linear);
  }
};

}  // namespace attend
