#pragma once

#include "attend/nn/multihead_attention.h"

namespace attend {

/// Runs the attention op for the observer of `pass`, if any: applies the observer's ablation and reports the trace. The
/// output is [batch, heads, queries, width].
TracedAttention observed_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                                   const ForwardPass& pass);

}  // namespace attend
