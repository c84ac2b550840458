#pragma once

#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

// Differentiable changes of shape. An op returns a view that shares the input's data if strides allow it, else a copy.

/// The same elements with another shape. One size may be -1 and is computed from the others.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Exchanges two axes: always a view.
Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b);
/// Elements begin … end-1 along an axis: always a view. Negative bounds count from the end.
Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end);
/// The element `index` along an axis; the axis is removed: always a view.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Adds an axis of size 1: always a view.
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// Broadcasts axes of size 1 and missing leading axes to `shape`: always a view.
Tensor expand(const Tensor& x, const Shape& shape);
/// x itself if it is dense, else a dense copy.
Tensor contiguous(const Tensor& x);
/// Joins tensors along an axis. Their shapes must agree on every other axis.
Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
/// Joins tensors of equal shape along a new axis.
Tensor stack(const std::vector<Tensor>& parts, int64_t axis);

}  // namespace attend
