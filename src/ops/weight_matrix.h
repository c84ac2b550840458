#pragma once

#include "attend/tensor/tensor.h"
#include "backend/kernels.h"

namespace attend {

/// A dense f32, bf16 or int8 matrix in the form that kernels take.
WeightMatrix weight_matrix(const Tensor& weight);

}  // namespace attend
