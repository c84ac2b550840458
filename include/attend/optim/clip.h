#pragma once

#include <vector>

#include "attend/nn/parameters.h"

namespace attend {

/// Scales all gradients so that their norm, taken over all of them together, is at most `max_norm`; returns the norm
/// before. Parameters without a gradient count for nothing.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace attend
