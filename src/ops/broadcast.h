#pragma once

#include "attend/tensor/tensor.h"

// Broadcasting and its gradient, outside the recorded graph.
namespace attend {

/// A view of x with a larger shape: stride 0 along stretched and new leading axes. Throws a ShapeError that names `op`.
Tensor stretched(const Tensor& x, const Shape& shape, const char* op);

/// The adjoint of stretched(): x summed over the axes along which `shape` was stretched.
Tensor reduced_to(const Tensor& x, const Shape& shape);
/// The same in another dtype: sums of 16-bit elements may be f32.
Tensor reduced_to(const Tensor& x, const Shape& shape, DType dtype);

}  // namespace attend
