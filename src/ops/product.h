#pragma once

#include "attend/ops/precision.h"
#include "attend/tensor/tensor.h"

namespace attend {

struct ProductOptions {
  Tensor bias{};  ///< [n], or none
  Precision precision = Precision::f32;
};

/// a […, m, k] · b […, k, n] + bias, outside the recorded graph; leading axes broadcast.
Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options = {});

}  // namespace attend
