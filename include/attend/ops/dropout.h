#pragma once

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// Zeroes each element with probability p and divides the rest by 1 − p. The same stream gives the same mask on any
/// thread count and device. p = 0 returns x.
Tensor dropout(const Tensor& x, double p, RandomStream stream);

}  // namespace attend
