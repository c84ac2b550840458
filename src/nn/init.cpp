#include "attend/nn/init.h"

#include <cmath>

#include "attend/autograd/autograd.h"
#include "attend/tensor/creation.h"

namespace attend {

namespace {

thread_local bool is_blank = false;

/// A tensor of this shape whose strides are 0, so that all elements share one value in memory.
Tensor blank(const Shape& shape) {
  Strides strides = shape;
  for (int64_t axis = 0; axis < shape.rank(); ++axis) strides[axis] = 0;
  return parameter(empty({1}).as_strided(shape, strides, 0));
}

}  // namespace

BlankParameters::BlankParameters() : before_(is_blank) { is_blank = true; }
BlankParameters::~BlankParameters() { is_blank = before_; }

Tensor constant_parameter(const Shape& shape, double value) {
  return is_blank ? blank(shape) : parameter(full(shape, value));
}

Tensor uniform_parameter(const Shape& shape, double bound, Rng& rng) {
  if (is_blank) return blank(shape);
  return parameter(uniform(shape, -bound, bound, rng.stream()));
}

Tensor normal_parameter(const Shape& shape, double deviation, Rng& rng) {
  if (is_blank) return blank(shape);
  return parameter(normal(shape, 0, deviation, rng.stream()));
}

Tensor xavier_parameter(const Shape& shape, Rng& rng, int64_t parts) {
  require<ShapeError>(shape.rank() == 2, "xavier_parameter: expected a matrix, got shape ", shape);
  return uniform_parameter(shape, std::sqrt(6.0 / static_cast<double>(parts * shape[0] + shape[1])), rng);
}

}  // namespace attend
