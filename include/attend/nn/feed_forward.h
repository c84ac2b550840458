#pragma once

#include "attend/nn/forward_pass.h"
#include "attend/nn/linear.h"

namespace attend {

enum class Activation { relu, gelu, gelu_tanh, silu, tanh, sigmoid, quick_gelu };
Tensor activate(Activation kind, const Tensor& x);

struct FeedForwardConfig {
  int64_t dim = 0;
  int64_t ffn_dim = 0;
  Activation activation = Activation::relu;
  bool gated = false;  ///< SwiGLU with silu, GeGLU with gelu (Shazeer 2020)
  bool bias = true;
  double dropout = 0;
};

/// Feed-forward network: down(activation(up(x))), or down(activation(gate(x)) · up(x)) if gated. Dropout applies to the
/// input of `down`.
struct FeedForward {
  Activation activation = Activation::relu;
  double dropout = 0;
  Linear up, down;
  std::optional<Linear> gate;

  static FeedForward create(const FeedForwardConfig& config, Rng& rng);
  /// A residual, if given, is added to the result.
  Tensor forward(const Tensor& x, const ForwardPass& pass = {}, const Tensor& residual = {}) const;

  static void fields(auto&& visit) {
    visit("up", &FeedForward::up);
    visit("gate", &FeedForward::gate);
    visit("down", &FeedForward::down);
  }
};

}  // namespace attend
