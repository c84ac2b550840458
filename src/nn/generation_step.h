#pragma once

#include "attend/nn/transformer.h"

// A generation step of one token per row on a GPU, in few kernels that read all numbers from device memory, so that the
// step can be captured as a graph. x and the results are [rows, 1, dim].
namespace attend {

/// Whether a step runs here: its numbers are on the device, and nobody observes it.
bool is_fused_step(const CacheStep& step, const ForwardPass& pass);

/// residual + attention(norm(x)). Without `norm`, x itself is attended to.
Tensor step_attention(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                      KeyValueCache& cache, const CacheStep& step);
/// The same for the attention to a memory, whose rows each serve x.dim(0) / memory rows.
Tensor step_memory(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const KeyValues& memory, const MaskOptions& masks);
/// residual + feed_forward(norm(x)).
Tensor step_feed_forward(const FeedForward& feed_forward, const Tensor& x, const Norm* norm, const Tensor& residual);
/// linear(norm(x), head), written into `logits` [rows, words] if given.
Tensor step_logits(const Tensor& x, const Norm* norm, const LinearWeights& head, const Tensor& logits = {});

}  // namespace attend
