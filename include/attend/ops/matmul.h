#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// a[…, m, k] · b[…, k, n]: […, m, n]. Leading axes broadcast. Strided (transposed) operands are not copied.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace attend
