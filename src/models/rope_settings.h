#pragma once

#include "attend/models/gpt.h"
#include "attend/ops/position.h"

namespace attend {

/// The rotary positions a config describes. Throws ShapeError where it does not add up.
RopeOptions rope_of(const GptConfig& config);

}  // namespace attend
