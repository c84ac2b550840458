#pragma once

#include <optional>

#include "attend/tensor/tensor.h"

// Changes of shape outside the recorded graph.
namespace attend {

/// The same elements, in the same order, with another shape and no copy; nothing where the strides do not allow it.
std::optional<Tensor> try_view_as(const Tensor& x, const Shape& shape);

/// The same, copying where it must. The shape must have x's element count.
Tensor reshaped(const Tensor& x, const Shape& shape);

/// All axes but the last made one: [rows, cols]. Rank 0 counts as [1, 1].
Tensor as_matrix(const Tensor& x);

/// Two axes exchanged.
Tensor transposed(const Tensor& x, int64_t axis_a, int64_t axis_b);

}  // namespace attend
