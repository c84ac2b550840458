#include "attend/nn/norm.h"

#include "attend/nn/init.h"
#include "attend/ops/norm.h"

namespace attend {

LayerNorm LayerNorm::create(const LayerNormConfig& config) {
  require<ShapeError>(config.dim >= 1, "LayerNorm: dim must be at least 1, got ", config.dim);
  LayerNorm result;
  result.eps = config.eps;
  if (config.weight) result.weight = constant_parameter({config.dim}, 1);
  if (config.bias) result.bias = constant_parameter({config.dim}, 0);
  return result;
}

Tensor LayerNorm::forward(const Tensor& x) const { return layer_norm(x, weight, bias, {.eps = eps}); }

RMSNorm RMSNorm::create(const RMSNormConfig& config) {
  require<ShapeError>(config.dim >= 1, "RMSNorm: dim must be at least 1, got ", config.dim);
  RMSNorm result;
  result.eps = config.eps;
  if (config.weight) result.weight = constant_parameter({config.dim}, 1);
  return result;
}

Tensor RMSNorm::forward(const Tensor& x) const { return rms_norm(x, weight, {.eps = eps}); }

Tensor Norm::forward(const Tensor& x) const {
  return rms ? rms_norm(x, weight, {.eps = eps}) : layer_norm(x, weight, bias, {.eps = eps});
}

}  // namespace attend
