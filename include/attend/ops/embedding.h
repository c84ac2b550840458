#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// The rows of weight [vocab_size, dim] at ids (i64, any shape): […, dim]. Throws ShapeError for an id out of range.
Tensor embedding(const Tensor& ids, const Tensor& weight);
/// The elements of x[…, n] at index[…, m] (i64) along the last axis: […, m]. Throws ShapeError for an index out of
/// range.
Tensor gather(const Tensor& x, const Tensor& index);

}  // namespace attend
