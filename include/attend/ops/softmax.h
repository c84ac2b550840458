#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// e^x_i / Σ_j e^x_j along the last axis.
Tensor softmax(const Tensor& x);
/// log softmax(x), computed without leaving the logarithmic scale.
Tensor log_softmax(const Tensor& x);

}  // namespace attend
