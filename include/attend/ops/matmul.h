#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// a[…, m, k] · b[…, k, n]; leading axes broadcast. Operands may be strided (transposed) views: nothing is copied.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace attend
