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

/// y = x · weightᵀ + bias along the last axis, with weight [out, in] and bias [out] or empty. For inference the weight
/// may be bf16 or int8: see attend/nn/weight_formats.h.
struct Linear {
  Tensor weight, bias;

  /// Initial values are uniform within ±1/√in, as in PyTorch. Throws ShapeError if `in` or `out` is below 1.
  static Linear create(const LinearConfig& config, Rng& rng);
  Tensor forward(const Tensor& x, const Tensor& residual = {}) const;  ///< a residual is added to y
  /// The argument of linear_each, for several layers that read the same x.
  LinearWeights weights() const { return {weight, bias}; }

  static void fields(auto&& visit) {
    visit("weight", &Linear::weight);
    visit("bias", &Linear::bias);
  }
};

}  // namespace attend
