#pragma once

#include "attend/autograd/autograd.h"
#include "attend/ops/attention.h"

namespace attend {

/// An attention output [batch, heads, queries, width] with the memory layout [batch, queries, heads, width], so that
/// merging the heads needs no copy.
Tensor empty_output(const Tensor& q, int64_t width);

/// The results of a forward pass for the queries, and the upstream gradient.
struct AttentionRows {
  Tensor y, lse, dy;
};

/// The gradients of q, k and v, not recorded. The queries of `rows` may have seen more keys than those in `k`: then dq
/// is the part of the gradient that flows through `k`. Throws ShapeError if `options` has a bias that needs a gradient.
Gradients attention_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                              const AttentionRows& rows);

}  // namespace attend
