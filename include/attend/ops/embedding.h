#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// Rows of weight [vocab_size, dim] chosen by ids (i64, any shape): […, dim].
Tensor embedding(const Tensor& ids, const Tensor& weight);
/// x[…, n] at index[…, m] (i64) of its last axis: […, m].
Tensor gather(const Tensor& x, const Tensor& index);

}  // namespace attend
