#pragma once

#include <vector>

#include "attend/nn/parameters.h"

namespace attend {

/// Scales all gradients so that their global norm, over all parameters together, is at most `max_norm`. Returns the
/// norm before scaling. Ignores parameters without a gradient. Throws ShapeError unless `max_norm` is positive.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace attend
