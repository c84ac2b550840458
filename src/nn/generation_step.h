#pragma once

#include <functional>

#include "attend/nn/transformer.h"

// A generation step of one token per row on a GPU, in few kernels that read all numbers from device memory, so that the
// step can be captured as a graph. x and the results are [rows, 1, dim].
namespace attend {

/// Whether a step runs here: its numbers are on the device, and nobody observes it.
bool is_fused_step(const CacheStep& step, const ForwardPass& pass);

/// Where the keys and values of a step go: rows [heads · dim] of a cache.
struct StepTarget {
  Tensor key_rows, value_rows;
  Tensor places, positions;  ///< i64 [rows]: the row of the cache for each row of x, and its position in its text
};
/// The attention of q [rows, heads, 1, dim] over cached keys and values, with the module's options.
using StepAttend = std::function<Tensor(const Tensor& q, const AttentionOptions& options)>;

/// residual + attention(norm(x)). Without `norm`, x itself is attended to.
Tensor step_attention(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                      const StepTarget& target, const StepAttend& attend);
Tensor step_attention(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                      KeyValueCache& cache, const CacheStep& step);
/// The same for the attention to a memory, over which `attend` attends.
Tensor step_memory(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const StepAttend& attend);
/// The same with a memory whose rows each serve x.dim(0) / memory rows.
Tensor step_memory(const MultiheadAttention& attention, const Tensor& x, const Norm* norm, const Tensor& residual,
                   const KeyValues& memory, const MaskOptions& masks);
/// A residual branch: f(x, norm, residual) computes residual + the branch.
template <class F>
Tensor step_residual(const TransformerLayerConfig& config, const Norm& norm, const Tensor& x, F&& f) {
  return config.norm_first ? f(x, &norm, x) : norm.forward(f(x, nullptr, x));
}
/// residual + feed_forward(norm(x)).
Tensor step_feed_forward(const FeedForward& feed_forward, const Tensor& x, const Norm* norm, const Tensor& residual);
/// linear(norm(x), head), written into `logits` [rows, words] if given.
Tensor step_logits(const Tensor& x, const Norm* norm, const LinearWeights& head, const Tensor& logits = {});

}  // namespace attend
