#pragma once

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

// Fresh parameters (f32, on the CPU, requiring a gradient), by the usual recipes.
namespace attend {

Tensor constant_parameter(const Shape& shape, double value);
/// Even in [−bound, bound].
Tensor uniform_parameter(const Shape& shape, double bound, Rng& rng);
Tensor normal_parameter(const Shape& shape, double deviation, Rng& rng);
/// A matrix [out, in] even within √(6 / (in + out)), which keeps the variance of values and gradients alike (Glorot and
/// Bengio 2010). `parts` such matrices stacked are to be treated as one, as PyTorch packs query, key and value.
Tensor xavier_parameter(const Shape& shape, Rng& rng, int64_t parts = 1);

}  // namespace attend
