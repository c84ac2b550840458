#pragma once

#include "attend/tensor/tensor.h"
#include "backend/kernels.h"

namespace attend {

/// A dense f32, bf16 or int8 matrix as the kernels take it.
WeightMatrix weight_matrix(const Tensor& weight);

}  // namespace attend
