#include "attend/nn/init.h"

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/tensor/creation.h"

namespace attend {

Tensor constant_parameter(const Shape& shape, double value) { return parameter(full(shape, value)); }

Tensor uniform_parameter(const Shape& shape, double bound, Rng& rng) {
  return parameter(uniform(shape, -bound, bound, rng.stream()));
}

Tensor normal_parameter(const Shape& shape, double deviation, Rng& rng) {
  return parameter(normal(shape, 0, deviation, rng.stream()));
}

Tensor xavier_parameter(const Shape& shape, Rng& rng, int64_t parts) {
  require<ShapeError>(shape.rank() == 2, "xavier_parameter: expected a matrix, got shape ", shape);
  return uniform_parameter(shape, std::sqrt(6.0 / static_cast<double>(parts * shape[0] + shape[1])), rng);
}

}  // namespace attend
