#pragma once

#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

// Views where strides allow it (they alias the input), copies where not; all differentiable.

/// One size may be -1: it is worked out from the rest.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Exchanges two axes: always a view.
Tensor transpose(const Tensor& x, int64_t axis_a, int64_t axis_b);
/// Elements begin … end-1 along an axis: always a view. Negative bounds count from the end.
Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end);
/// The element `index` along an axis, which is dropped: always a view.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// Adds an axis of size 1: always a view.
Tensor unsqueeze(const Tensor& x, int64_t axis);
/// Stretches size-1 (and missing leading) axes without copying: always a view.
Tensor expand(const Tensor& x, const Shape& shape);
/// A dense tensor: x itself if it is one already.
Tensor contiguous(const Tensor& x);
/// Joins tensors whose shapes agree on every other axis.
Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
/// Joins equal shapes along a new axis.
Tensor stack(const std::vector<Tensor>& parts, int64_t axis);

}  // namespace attend
