#include "ops/broadcast.h"

#include "ops/check.h"

namespace attend {

Tensor stretched(const Tensor& x, const Shape& shape, const char* op) {
  const int64_t added = shape.rank() - x.rank();
  require<ShapeError>(added >= 0, op, ": shape ", x.shape(), " has more axes than ", shape);
  Strides strides = shape;
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = axis < added ? 1 : x.shape()[axis - added];
    require<ShapeError>(shape[axis] >= 0 && (size == shape[axis] || size == 1), op, ": shape ", x.shape(),
                        " does not broadcast to ", shape);
    strides[axis] = axis < added || size != shape[axis] ? 0 : x.strides()[axis - added];
  }
  return x.as_strided(shape, strides, x.offset());
}

Tensor reduced_to(const Tensor& x, const Shape& shape) { return reduced_to(x, shape, x.dtype()); }

Tensor reduced_to(const Tensor& x, const Shape& shape, DType dtype) {
  if (x.shape() == shape) return to(x, dtype);
  const int64_t added = x.rank() - shape.rank();
  Shape kept = x.shape();
  for (int64_t axis = 0; axis < x.rank(); ++axis) kept[axis] = axis < added ? 1 : shape[axis - added];
  const Tensor y = empty(kept, {dtype, x.device()});
  kernels(x.device()).reduce.sum(x.view(), y.view());
  return y.as_strided(shape, contiguous_strides(shape), 0);
}

}  // namespace attend
