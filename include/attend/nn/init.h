#pragma once

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

// Fresh parameters (f32, on the CPU, requiring a gradient), by the usual recipes.
namespace attend {

/// While one lives, parameters made on this thread have a shape but neither values nor memory: for a model whose
/// weights will be loaded at once. Like NoGrad, it may be nested.
class BlankParameters {
 public:
  BlankParameters();
  ~BlankParameters();
  BlankParameters(const BlankParameters&) = delete;
  BlankParameters& operator=(const BlankParameters&) = delete;

 private:
  bool before_;
};

Tensor constant_parameter(const Shape& shape, double value);
/// Even in [−bound, bound].
Tensor uniform_parameter(const Shape& shape, double bound, Rng& rng);
Tensor normal_parameter(const Shape& shape, double deviation, Rng& rng);
/// A matrix [out, in] even within √(6 / (in + out)), which keeps the variance of values and gradients alike (Glorot and
/// Bengio 2010). `parts` such matrices stacked are to be treated as one, as PyTorch packs query, key and value.
Tensor xavier_parameter(const Shape& shape, Rng& rng, int64_t parts = 1);

}  // namespace attend
