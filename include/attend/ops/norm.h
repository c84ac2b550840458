#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

struct NormOptions {
  double eps = 1e-5;
};

/// (x − mean) / √(variance + eps) · weight + bias over the last axis. weight and bias are [last] or empty.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, NormOptions options = {});
/// x / √(mean(x²) + eps) · weight over the last axis. weight is [last] or empty.
Tensor rms_norm(const Tensor& x, const Tensor& weight, NormOptions options = {.eps = 1e-6});

}  // namespace attend
