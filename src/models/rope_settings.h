#pragma once

#include "attend/models/gpt.h"
#include "attend/ops/position.h"

namespace attend {

/// The RoPE options of a config. Throws ShapeError if the config is inconsistent.
RopeOptions rope_of(const GptConfig& config);

}  // namespace attend
