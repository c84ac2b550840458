#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// x[…, in] · weightᵀ + bias, with weight [out, in] and bias [out] or empty.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace attend
