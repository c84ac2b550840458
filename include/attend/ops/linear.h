#pragma once

#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// x[…, in] · weightᵀ + bias, with weight [out, in] and bias [out] or empty. With x in f32 the weight may be held in
/// bf16 or int8 (attend/ops/weight_format.h) as long as nothing is recorded.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

struct LinearWeights {
  Tensor weight, bias;
};

/// linear(x, weight, bias) for each: where nothing is recorded x is read once and threads wake once for all.
std::vector<Tensor> linear_each(const Tensor& x, std::span<const LinearWeights> layers);

}  // namespace attend
