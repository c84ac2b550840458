#include "attend/nn/feed_forward.h"

#include "attend/ops/activation.h"
#include "attend/ops/arithmetic.h"

namespace attend {

Tensor activate(Activation kind, const Tensor& x) {
  switch (kind) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::quick_gelu:
      return multiply(x, sigmoid(x * 1.702));
  }
  throw ShapeError("activate: unknown activation");
}

FeedForward FeedForward::create(const FeedForwardConfig& config, Rng& rng) {
  require<ShapeError>(config.dim >= 1 && config.ffn_dim >= 1, "FeedForward: dim and ffn_dim must be at least 1, got ",
                      config.dim, " and ", config.ffn_dim);
  FeedForward result;
  result.activation = config.activation;
  result.dropout = config.dropout;
  result.up = Linear::create({.in = config.dim, .out = config.ffn_dim, .bias = config.bias}, rng);
  if (config.gated) result.gate = Linear::create({.in = config.dim, .out = config.ffn_dim, .bias = config.bias}, rng);
  result.down = Linear::create({.in = config.ffn_dim, .out = config.dim, .bias = config.bias}, rng);
  return result;
}

Tensor FeedForward::forward(const Tensor& x, const ForwardPass& pass, const Tensor& residual) const {
  const bool is_plain = !gate && !pass.observer && !(pass.rng && dropout > 0);
  if (is_plain && activation == Activation::gelu_tanh) {
    return linear_gelu_linear(x, up.weights(), down.weights(), residual);
  }
  Tensor hidden;
  if (gate) {
    const LinearWeights both[]{gate->weights(), up.weights()};
    const std::vector<Tensor> parts = linear_each(x, both);
    hidden = multiply(activate(activation, parts[0]), parts[1]);
  } else {
    hidden = activate(activation, up.forward(x));
  }
  return down.forward(drop(pass.show("activated", hidden), dropout, pass), residual);
}

}  // namespace attend
