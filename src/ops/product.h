#pragma once

#include <optional>

#include "attend/ops/precision.h"
#include "attend/tensor/tensor.h"
#include "backend/kernels.h"

namespace attend {

struct ProductOptions {
  Tensor bias{};  ///< [n] or empty
  Precision precision = Precision::f32;
  std::optional<DType> result{};  ///< f32 for operands of 16 bits; default: the dtype of a
  Tensor residual{};              ///< of the result's shape and dtype, added at the end; or empty
  Tensor sum{};                   ///< dense, of the result's shape: the product is added to it in place; or empty
  Tensor row_sums{};              ///< [m], of the result's dtype: receives the sums of the rows of a matrix a; or empty
};

/// The options of a product of operands of `dtype`. Operands of 16 bits need no rounding.
inline MatmulOptions matmul_options(Precision precision, DType dtype) {
  return {.bf16 = precision == Precision::bf16 && size_of(dtype) > 2,
          .tf32 = precision == Precision::tf32 && dtype == DType::f32};
}

/// a […, m, k] · b […, k, n] + bias + residual, or `sum` after the product was added to it. Leading axes broadcast. The
/// bias may be f32 beside operands of 16 bits. Not recorded.
Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options = {});

}  // namespace attend
