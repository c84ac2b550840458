#pragma once

#include <span>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// x[…, in] · weightᵀ + bias + residual, with weight [out, in], bias [out] or empty, and residual […, out] or empty. If
/// x is f32 and nothing is recorded, the weight may be bf16 or int8 (attend/ops/weight_format.h).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& residual = {});

struct LinearWeights {
  Tensor weight, bias;
};

/// residual + linear(gelu_tanh(linear(x, up)), down): a feed-forward network. On a GPU with activations of 16 bits, the
/// products compute the activation and its gradient. The residual may be empty.
Tensor linear_gelu_linear(const Tensor& x, const LinearWeights& up, const LinearWeights& down,
                          const Tensor& residual = {});

/// linear(x, weight, bias) for each layer. If nothing is recorded, all layers run as one parallel call that reads x
/// once.
std::vector<Tensor> linear_each(const Tensor& x, std::span<const LinearWeights> layers);

}  // namespace attend
