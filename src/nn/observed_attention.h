#pragma once

#include "attend/nn/multihead_attention.h"

namespace attend {

/// The fused call, with what an observer wants of it: heads and keys left out beforehand, the trace shown afterwards.
/// The output is [batch, heads, queries, width].
TracedAttention observed_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                                   const ForwardPass& pass);

}  // namespace attend
