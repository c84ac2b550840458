#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attend/inspect/experiment.h"

namespace attend {

/// The changes of activations that `steer` asks for. `run_of` captures a text. Throws ShapeError if an activation does
/// not exist, or a text has no tokens.
std::vector<ActivationChange> steering_changes(const std::vector<Steering>& steer,
                                               const std::function<Run(const std::string& text)>& run_of);

}  // namespace attend
