#pragma once

#include "attend/io/json.h"
#include "generate/engine.h"
#include "serve/generation_settings.h"

namespace attend {

/// Where a generated token looked: for each chosen attention module and head, the largest weights and the positions
/// that they belong to.
Json look_json(const SequenceStep& step, int64_t row, const LookSettings& settings);

/// Number of the layer in the path of an attention module; 0 if the path has none.
int64_t layer_of(const std::string& path);

}  // namespace attend
