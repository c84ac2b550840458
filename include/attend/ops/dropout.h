#pragma once

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// Sets each element to 0 with probability p and divides the other elements by 1 − p. The same stream gives the same
/// mask on any thread count and device. Returns x if p = 0. Throws ShapeError unless p is in [0, 1].
Tensor dropout(const Tensor& x, double p, RandomStream stream);

}  // namespace attend
