#include "attend/nn/self_attention_block.h"

#include "attend/ops/arithmetic.h"

namespace attend {

SelfAttentionBlock SelfAttentionBlock::create(const SelfAttentionBlockConfig& config, Rng& rng) {
  const int64_t dim = config.attention.dim;
  SelfAttentionBlock result;
  result.attention = MultiheadAttention::create(config.attention, rng);
  result.layer_norm = LayerNorm::create({.dim = dim, .eps = config.eps});
  result.linear = Linear::create({.in = dim, .out = config.out == 0 ? dim : config.out}, rng);
  return result;
}

Tensor SelfAttentionBlock::forward(const Tensor& x, const MaskOptions& masks, const ForwardPass& pass) const {
  return linear.forward(layer_norm.forward(x + attention.forward(x, masks, pass)));
}

}  // namespace attend
