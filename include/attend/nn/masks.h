#pragma once

#include "attend/ops/attention.h"
#include "attend/tensor/tensor.h"

// Masks have one meaning everywhere: true = may attend.
namespace attend {

/// Who may attend to whom in one call of a module. All parts hold together: a key is seen where every one allows it.
struct MaskOptions {
  bool causal = false;
  Alignment alignment = Alignment::top_left;  ///< for `causal` where there are fewer queries than keys, or more
  Tensor mask;                                ///< boolean, broadcast to [batch, heads, queries, keys]
  Tensor keys;                                ///< boolean [batch, keys]: which keys are real, not padding
  Tensor lengths;                             ///< i64 [batch]: keys from lengths[b] on are padding
  Tensor bias;                                ///< added to the scores; broadcast like `mask`; differentiable
  Tensor offsets;    ///< i64 [sequences + 1]: self-attention of sequences packed into a batch of 1, each to itself
  Tensor positions;  ///< i64 [length]: where tokens stand, for rotary positions of packed sequences
};

/// True where x is false: turns a mask that says "ignore" into one that says "may attend".
Tensor logical_not(const Tensor& x);
/// True where both are; shapes broadcast. An empty tensor stands for "all true".
Tensor logical_and(const Tensor& a, const Tensor& b);
/// [queries, keys]: what `options` lets a query see by position alone, as a tensor.
struct PositionMaskOptions {
  int64_t queries = 0, keys = 0;
  bool causal = true;
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;
};
Tensor position_mask(const PositionMaskOptions& options);
/// [batch, length]: true before lengths[b].
Tensor length_mask(const Tensor& lengths, int64_t length);

}  // namespace attend
