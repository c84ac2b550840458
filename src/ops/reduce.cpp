#include "attend/ops/reduce.h"

#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

/// factor · Σ x over the axes where `kept` is 1 and x is not. Its gradient is factor · dy, stretched over x again.
Tensor scaled_sum(const char* op, const Tensor& x, const Shape& kept, const Shape& result, double factor) {
  const Tensor total = empty(kept, {sum_dtype(x.dtype()), x.device()});
  kernels(x.device()).reduce.sum(x.view(), total.view());
  if (factor != 1) kernels(x.device()).elementwise.affine(total.view(), factor, 0, total.view());
  const Tensor y = to(total, x.dtype());
  return record(op, y.as_strided(result, contiguous_strides(result), 0), {x},
                [op, shape = x.shape(), kept, factor](const Tensor& dy) -> Gradients {
                  const Tensor upstream = reshaped(dy, kept);
                  if (factor == 1) return {stretched(upstream, shape, op)};
                  const Tensor term = empty_like(upstream);
                  kernels(dy.device()).elementwise.affine(upstream.view(), factor, 0, term.view());
                  return {stretched(term, shape, op)};
                });
}

Shape ones_like_shape(const Shape& shape) {
  Shape result = shape;
  for (int64_t axis = 0; axis < shape.rank(); ++axis) result[axis] = 1;
  return result;
}

Tensor along_axis(const char* op, const Tensor& x, int64_t axis, bool keep_axis, double factor) {
  Shape kept = x.shape(), dropped;
  kept[axis] = 1;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) dropped.push_back(x.shape()[i]);
  }
  return scaled_sum(op, x, kept, keep_axis ? kept : dropped, factor);
}

double reciprocal(int64_t count, const Shape& shape) {
  require<ShapeError>(count > 0, "mean: expected at least one element, got shape ", shape);
  return 1.0 / static_cast<double>(count);
}

}  // namespace

Tensor sum(const Tensor& x) {
  require_float(x, "sum");
  return scaled_sum("sum", x, ones_like_shape(x.shape()), {}, 1);
}

Tensor mean(const Tensor& x) {
  require_float(x, "mean");
  return scaled_sum("mean", x, ones_like_shape(x.shape()), {}, reciprocal(x.numel(), x.shape()));
}

Tensor sum(const Tensor& x, int64_t axis, bool keep_axis) {
  require_float(x, "sum");
  return along_axis("sum", x, x.shape().axis(axis, "sum"), keep_axis, 1);
}

Tensor mean(const Tensor& x, int64_t axis, bool keep_axis) {
  require_float(x, "mean");
  const int64_t place = x.shape().axis(axis, "mean");
  return along_axis("mean", x, place, keep_axis, reciprocal(x.shape()[place], x.shape()));
}

}  // namespace attend
