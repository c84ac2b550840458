#pragma once

#include <optional>

#include "attend/tensor/tensor.h"

// Changes of shape outside the recorded graph.
namespace attend {

/// A view of the same elements, in the same order, with another shape; nullopt if the strides do not allow a view.
std::optional<Tensor> try_view_as(const Tensor& x, const Shape& shape);

/// try_view_as, or a copy with this shape if no view is possible. The shape must have x's element count.
Tensor reshaped(const Tensor& x, const Shape& shape);

/// x as [rows, cols]: all axes but the last are merged. Rank 0 becomes [1, 1].
Tensor as_matrix(const Tensor& x);

/// A view of x with two axes exchanged.
Tensor transposed(const Tensor& x, int64_t axis_a, int64_t axis_b);

}  // namespace attend
