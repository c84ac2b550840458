#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// x[batch, length, …] with everything from position lengths[b] on (i64 [batch]) set to 0, whatever stood there, NaN
/// included. Its gradient is 0 there likewise.
Tensor zero_padding(const Tensor& x, const Tensor& lengths);

}  // namespace attend
