#include "attend/nn/linear.h"

#include <cmath>

#include "attend/nn/init.h"

namespace attend {

Linear Linear::create(const LinearConfig& config, Rng& rng) {
  require<ShapeError>(config.in >= 1 && config.out >= 1, "Linear: in and out must be at least 1, got ", config.in,
                      " and ", config.out);
  const double bound = 1 / std::sqrt(static_cast<double>(config.in));
  Linear result;
  result.weight = uniform_parameter({config.out, config.in}, bound, rng);
  if (config.bias) result.bias = uniform_parameter({config.out}, bound, rng);
  return result;
}

Tensor Linear::forward(const Tensor& x, const Tensor& residual) const { return linear(x, weight, bias, residual); }

}  // namespace attend
