#include "attend/ops/shape.h"

#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

void require_tensor(const Tensor& x, const char* op) { require<ShapeError>(static_cast<bool>(x), op, ": x is empty"); }

/// `wanted` with a size of -1 replaced by the size that x's elements need.
Shape complete(const Shape& wanted, const Tensor& x) {
  Shape shape = wanted;
  int64_t known = 1, open = -1;
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != -1) {
      known *= shape[axis];
      continue;
    }
    require<ShapeError>(open < 0, "reshape: only one size may be -1, got ", wanted);
    open = axis;
  }
  if (open >= 0 && known > 0 && x.numel() % known == 0) shape[open] = x.numel() / known;
  for (int64_t size : shape) require<ShapeError>(size >= 0, "reshape: cannot reshape ", x.shape(), " to ", wanted);
  require<ShapeError>(shape.numel() == x.numel(), "reshape: cannot reshape ", x.shape(), " to ", wanted);
  return shape;
}

Tensor sliced(const Tensor& x, int64_t axis, int64_t begin, int64_t end) {
  Shape shape = x.shape();
  shape[axis] = end - begin;
  return x.as_strided(shape, x.strides(), x.offset() + begin * x.strides()[axis]);
}

Tensor without_axis(const Tensor& x, int64_t axis) {
  Shape shape;
  Strides strides;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i == axis) continue;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return x.as_strided(shape, strides, x.offset());
}

Tensor with_axis(const Tensor& x, int64_t axis) {
  Shape shape;
  Strides strides;
  for (int64_t i = 0; i <= x.rank(); ++i) {
    if (i == axis) {
      shape.push_back(1);
      strides.push_back(1);
    }
    if (i == x.rank()) break;
    shape.push_back(x.shape()[i]);
    strides.push_back(x.strides()[i]);
  }
  return x.as_strided(shape, strides, x.offset());
}

/// Zeros of `shape` with dy copied in from index `begin` on along an axis: the gradient of a slice.
Tensor placed_in_zeros(const Tensor& dy, const Shape& shape, int64_t axis, int64_t begin) {
  const Tensor dx = zeros(shape, {dy.dtype(), dy.device()});
  kernels(dy.device()).elementwise.copy(dy.view(), sliced(dx, axis, begin, begin + dy.shape()[axis]).view());
  return dx;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& wanted) {
  require_tensor(x, "reshape");
  return record("reshape", reshaped(x.detach(), complete(wanted, x)), {x},
                [shape = x.shape()](const Tensor& dy) -> Gradients { return {reshaped(dy, shape)}; });
}

Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b) {
  require_tensor(x, "transpose");
  return record("transpose", transposed(x, axis_a, axis_b), {x},
                [axis_a, axis_b](const Tensor& dy) -> Gradients { return {transposed(dy, axis_a, axis_b)}; });
}

Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end) {
  require_tensor(x, "slice");
  const int64_t place = x.shape().axis(axis, "slice"), size = x.shape()[place];
  const int64_t first = begin < 0 ? begin + size : begin, last = end < 0 ? end + size : end;
  require<ShapeError>(0 <= first && first <= last && last <= size, "slice: range ", begin, " to ", end,
                      " is outside axis ", axis, " of shape ", x.shape());
  return record("slice", sliced(x, place, first, last), {x},
                [shape = x.shape(), place, first](const Tensor& dy) -> Gradients {
                  return {placed_in_zeros(dy, shape, place, first)};
                });
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  require_tensor(x, "select");
  const int64_t place = x.shape().axis(axis, "select"), size = x.shape()[place];
  require<ShapeError>(-size <= index && index < size, "select: index ", index, " is out of range for axis ", axis,
                      " of shape ", x.shape());
  const int64_t at = index < 0 ? index + size : index;
  return record("select", without_axis(sliced(x, place, at, at + 1), place), {x},
                [shape = x.shape(), place, at](const Tensor& dy) -> Gradients {
                  return {placed_in_zeros(with_axis(dy, place), shape, place, at)};
                });
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  require_tensor(x, "unsqueeze");
  const int64_t rank = x.rank();
  require<ShapeError>(-rank - 1 <= axis && axis <= rank, "unsqueeze: axis ", axis, " is out of range for shape ",
                      x.shape());
  const int64_t place = axis < 0 ? axis + rank + 1 : axis;
  return record("unsqueeze", with_axis(x, place), {x},
                [place](const Tensor& dy) -> Gradients { return {without_axis(dy, place)}; });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  require_tensor(x, "expand");
  return record("expand", stretched(x, shape, "expand"), {x},
                [from = x.shape()](const Tensor& dy) -> Gradients { return {reduced_to(dy, from)}; });
}

Tensor contiguous(const Tensor& x) {
  require_tensor(x, "contiguous");
  if (x.is_contiguous()) return x;
  return record("contiguous", x.clone(), {x}, [](const Tensor& dy) -> Gradients { return {dy}; });
}

Tensor concat(const std::vector<Tensor>& parts, int64_t axis) {
  require<ShapeError>(!parts.empty(), "concat: expected at least one tensor");
  for (const Tensor& part : parts) require_tensor(part, "concat");
  const int64_t place = parts[0].shape().axis(axis, "concat");
  Shape shape = parts[0].shape();
  shape[place] = 0;
  std::vector<int64_t> bounds{0};
  for (const Tensor& part : parts) {
    Shape rest = part.shape();
    if (rest.rank() == shape.rank()) rest[place] = shape[place];
    require<ShapeError>(rest == shape, "concat: shapes ", parts[0].shape(), " and ", part.shape(),
                        " differ outside axis ", axis);
    require_same_kind(parts[0], part, "concat", "a later part");
    shape[place] += part.shape()[place];
    bounds.push_back(shape[place]);
  }
  const Tensor y = empty(shape, {parts[0].dtype(), parts[0].device()});
  for (size_t i = 0; i < parts.size(); ++i) {
    kernels(y.device()).elementwise.copy(parts[i].view(), sliced(y, place, bounds[i], bounds[i + 1]).view());
  }
  return record("concat", y, parts, [place, bounds](const Tensor& dy) -> Gradients {
    Gradients gradients;
    for (size_t i = 0; i + 1 < bounds.size(); ++i) gradients.push_back(sliced(dy, place, bounds[i], bounds[i + 1]));
    return gradients;
  });
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis) {
  require<ShapeError>(!parts.empty(), "stack: expected at least one tensor");
  std::vector<Tensor> widened;
  for (const Tensor& part : parts) {
    require<ShapeError>(part.shape() == parts[0].shape(), "stack: shapes ", parts[0].shape(), " and ", part.shape(),
                        " differ");
    widened.push_back(unsqueeze(part, axis));
  }
  return concat(widened, axis);
}

}  // namespace attend
