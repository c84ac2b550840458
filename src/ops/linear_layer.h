#pragma once

#include "attend/autograd/autograd.h"
#include "attend/ops/precision.h"
#include "attend/tensor/tensor.h"

// What ops with linear layers share.
namespace attend {

/// Throws unless x · weightᵀ + bias is possible: see linear().
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// The gradients of y = x · weightᵀ + bias.
struct LinearGradients {
  Tensor matrix, weight;  ///< x as [rows, in] and the weight, in the dtype of the products
  Precision precision = Precision::f32;
  DType x_type = DType::f32, weight_type = DType::f32, bias_type = DType::f32;
  bool need_x = false, need_weight = false, need_bias = false;

  /// Of x as a matrix, weight and bias, for dy [rows, out]. They are added to those of sums[0] and sums[1] that are not
  /// empty.
  Gradients of(const Tensor& dy, const Gradients& sums) const;
};

}  // namespace attend
