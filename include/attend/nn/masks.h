#pragma once

#include "attend/ops/attention.h"
#include "attend/tensor/tensor.h"

// In every mask, true means "may attend".
namespace attend {

/// The masks of one attention call. A query sees a key only if every mask allows it.
struct MaskOptions {
  bool causal = false;
  Alignment alignment = Alignment::top_left;  ///< for `causal`, if the numbers of queries and keys differ
  Tensor mask;                                ///< boolean, broadcast to [batch, heads, queries, keys]
  Tensor keys;                                ///< boolean [batch, keys]: false for padding
  Tensor lengths;                             ///< i64 [batch]: keys from lengths[b] on are padding
  Tensor bias;                                ///< added to the scores; broadcast like `mask`; differentiable
  Tensor offsets;    ///< i64 [sequences + 1]: bounds of sequences packed into a batch of 1; each attends only to itself
  Tensor positions;  ///< i64 [length]: token positions of packed sequences, for RoPE
};

/// The negation of x. Turns a mask of ignored keys into a mask of keys that may be attended to.
Tensor logical_not(const Tensor& x);
/// True where a and b are true. Shapes broadcast. An empty tensor means "all true".
Tensor logical_and(const Tensor& a, const Tensor& b);
struct PositionMaskOptions {
  int64_t queries = 0, keys = 0;
  bool causal = true;
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;
};
/// The boolean mask [queries, keys] of causal or windowed attention.
Tensor position_mask(const PositionMaskOptions& options);
/// The boolean mask [batch, length] that is true before position lengths[b]. Throws ShapeError if a length is not in 0
/// … length.
Tensor length_mask(const Tensor& lengths, int64_t length);

}  // namespace attend
