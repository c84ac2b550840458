#pragma once

#include <vector>

#include "attend/nn/parameters.h"

namespace attend {

/// The square of the global norm of the gradients, over all parameters together: one f64 on the parameters' device.
/// Ignores parameters without a gradient.
Tensor squared_grad_norm(const std::vector<NamedTensor>& parameters);

/// A limit on the global norm that an optimizer applies to the gradients while it reads them. Unlike clip_grad_norm, it
/// reads nothing back from the device. If the norm is not finite, step() changes nothing.
struct GradNormLimit {
  Tensor squared_norm;  ///< what squared_grad_norm returned; empty: no limit
  double max_norm = 0;
};

/// Scales all gradients so that their global norm, over all parameters together, is at most `max_norm`. Returns the
/// norm before scaling. Ignores parameters without a gradient. Throws ShapeError unless `max_norm` is positive.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace attend
