#pragma once

#include "attend/base/random.h"
#include "attend/nn/parameters.h"
#include "attend/ops/linear.h"

namespace attend {

struct LinearConfig {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
};

/// y = x · weightᵀ + bias on the last axis; weight [out, in], bias [out] or empty. For inference the weight may be bf16
/// or int8: attend/nn/weight_formats.h.
struct Linear {
  Tensor weight, bias;

  /// Even within ±1/√in, as in PyTorch.
  static Linear create(const LinearConfig& config, Rng& rng);
  Tensor forward(const Tensor& x) const;
  /// For linear_each, where several layers read the same x.
  LinearWeights weights() const { return {weight, bias}; }

  static void fields(auto&& visit) {
    visit("weight", &Linear::weight);
    visit("bias", &Linear::bias);
  }
};

}  // namespace attend
