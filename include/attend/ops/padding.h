#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// A copy of x[batch, length, …] whose padding is 0: in sequence b, all positions from lengths[b] on (lengths: i64
/// [batch]). The gradient of the padding is 0. NaN in the padding of x does not propagate.
Tensor zero_padding(const Tensor& x, const Tensor& lengths);

}  // namespace attend
