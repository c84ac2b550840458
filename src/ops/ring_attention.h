#pragma once

#include "attend/ops/attention.h"
#include "ops/context_part.h"

namespace attend {

/// attention() of a sequence to itself, divided among the ranks of a group (Liu et al. 2023). q, k and v are this
/// rank's part along the length axis, on the CPU. Keys and values travel around the ring of ranks while attention to
/// those of the last step is computed; in the backward pass, their gradients travel with them. So memory is linear in
/// the part's length. Collective, forward and backward. `part` must live until the backward pass is done.
///
/// The result agrees with attention() up to rounding, and has the same bits in each run. Dropout draws other masks than
/// attention(). `lengths` counts keys of the whole sequence. Throws ShapeError for a mask, a bias or packed sequences.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      const ContextPart& part);

}  // namespace attend
