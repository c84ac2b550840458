#pragma once

#include "attend/tensor/tensor.h"

// Broadcasting and its gradient, outside the recorded graph.
namespace attend {

/// x seen with a larger shape: stride 0 along stretched and new leading axes. Throws ShapeError naming `op`.
Tensor stretched(const Tensor& x, const Shape& shape, const char* op);

/// The adjoint of stretched: x summed over the axes that `shape` would be stretched along.
Tensor reduced_to(const Tensor& x, const Shape& shape);

}  // namespace attend
