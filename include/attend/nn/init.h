#pragma once

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

// Initialisation of parameters. They are f32, on the CPU, and require a gradient.
namespace attend {

/// While a BlankParameters is alive, parameters created on this thread have a shape but no values, and allocate no
/// memory. Use it to create a model whose weights are loaded right afterwards. Scopes may be nested.
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
/// Uniform in [−bound, bound].
Tensor uniform_parameter(const Shape& shape, double bound, Rng& rng);
/// Normally distributed with mean 0.
Tensor normal_parameter(const Shape& shape, double deviation, Rng& rng);
/// A matrix [out, in], uniform within ±√(6 / (in + out)), which preserves the variance of values and gradients (Glorot
/// and Bengio 2010). With `parts`, the matrix is initialised like one of `parts` matrices that are stacked into one, as
/// PyTorch packs query, key and value: `out` in the bound becomes parts · out. Throws ShapeError unless `shape` has two
/// axes.
Tensor xavier_parameter(const Shape& shape, Rng& rng, int64_t parts = 1);

}  // namespace attend
