#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// x converted to another floating-point dtype; x itself if it has this dtype. The gradient is converted back. Unlike
/// to(), it is recorded. Throws ShapeError unless both dtypes are floating-point types.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace attend
