#pragma once

#include <cstdint>

#include "attend/base/dtype.h"

namespace attend::cuda {

/// An operand of a product, as cuBLASLt takes it: element (i, j) is data[i · stride + j], or data[j · stride + i] if
/// `turned`. The stride is at least the length of the contiguous axis.
struct Operand {
  const void* data = nullptr;
  int64_t stride = 0;
  bool turned = false;
  int64_t batch_stride = 0;
};

/// What cuBLASLt computes from the product's elements before it stores them.
enum class Epilogue {
  none,           ///< c = p
  gelu,           ///< c = gelu_tanh(p), and aux = p
  gelu_backward,  ///< c = p · gelu_tanh'(aux)
  row_sums        ///< c = p, and aux[i] = Σ_k a[i, k] in c's type
};

/// c[m, n] = p, where p = a[m, k] · b[k, n] + residual + bias, for each matrix of a batch.
struct Product {
  DType type = DType::f32;    ///< of a and b: f32, f64, bf16, f16 or i8
  DType c_type = DType::f32;  ///< of c and bias: f32 or 16 bits, for f64 f64, for i8 i32
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;
  void* c = nullptr;  ///< contiguous rows
  int64_t c_stride = 0, c_batch_stride = 0;
  const void* bias = nullptr;      ///< [n], contiguous; null: no bias
  bool accumulate = false;         ///< add to c
  bool tf32 = false;               ///< round f32 operands to TF32
  const void* residual = nullptr;  ///< contiguous rows, as those of c; not with a batch; null: nothing is added
  int64_t residual_stride = 0;
  Epilogue epilogue = Epilogue::none;  ///< others: not with a batch
  const void* aux = nullptr;           ///< of the epilogue: a dense matrix like c, or [m]; may be written
};

enum class Outcome { done, no_algorithm };

/// Multiplies with cuBLASLt. The algorithm depends only on the shapes, strides, types and alignment, and it is
/// deterministic. m, n, k and batch are at least 1. Returns no_algorithm, without computing anything, if cuBLASLt does
/// not support the product.
Outcome run_product(const Product& product);

}  // namespace attend::cuda
