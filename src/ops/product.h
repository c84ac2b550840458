#pragma once

#include "attend/ops/precision.h"
#include "attend/tensor/tensor.h"

namespace attend {

struct ProductOptions {
  Tensor bias{};  ///< [n] or empty
  Precision precision = Precision::f32;
};

/// a […, m, k] · b […, k, n] + bias. Leading axes broadcast. Not recorded.
Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options = {});

}  // namespace attend
