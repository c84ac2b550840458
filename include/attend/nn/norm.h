#pragma once

#include "attend/nn/parameters.h"

namespace attend {

struct LayerNormConfig {
  int64_t dim = 0;
  double eps = 1e-5;
  bool weight = true;
  bool bias = true;
};

/// (x − mean) / √(variance + eps) · weight + bias over the last axis. weight and bias are [dim] or empty.
struct LayerNorm {
  double eps = 1e-5;
  Tensor weight, bias;

  /// The initial weight is 1 and the initial bias 0.
  static LayerNorm create(const LayerNormConfig& config);
  Tensor forward(const Tensor& x) const;

  static void fields(auto&& visit) {
    visit("weight", &LayerNorm::weight);
    visit("bias", &LayerNorm::bias);
  }
};

struct RMSNormConfig {
  int64_t dim = 0;
  double eps = 1e-6;
  bool weight = true;
};

/// x / √(mean(x²) + eps) · weight over the last axis. weight is [dim] or empty.
struct RMSNorm {
  double eps = 1e-6;
  Tensor weight;

  static RMSNorm create(const RMSNormConfig& config);
  Tensor forward(const Tensor& x) const;

  static void fields(auto&& visit) { visit("weight", &RMSNorm::weight); }
};

/// A LayerNorm or an RMSNorm.
struct Norm {
  bool rms = false;
  double eps = 1e-5;
  Tensor weight, bias;

  Norm() = default;
  Norm(LayerNorm norm) : eps(norm.eps), weight(std::move(norm.weight)), bias(std::move(norm.bias)) {}
  Norm(RMSNorm norm) : rms(true), eps(norm.eps), weight(std::move(norm.weight)) {}
  Tensor forward(const Tensor& x) const;

  static void fields(auto&& visit) {
    visit("weight", &Norm::weight);
    visit("bias", &Norm::bias);
  }
};

}  // namespace attend
