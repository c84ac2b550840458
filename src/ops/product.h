#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// a […, m, k] · b […, k, n] + bias [n] (or none), outside the recorded graph; leading axes broadcast.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias = {});

}  // namespace attend
