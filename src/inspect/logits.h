#pragma once

#include "attend/inspect/document.h"
#include "attend/io/json.h"

namespace attend {

/// The logits of a run, with its interventions: [places, words], or [1, labels]. Throws ShapeError if the model has no
/// output layer.
Tensor run_logits(const Model& model, const Run& run);

/// The logits of the word after a place of a run: {"top": [{"id", "text"}], "sorted"}. `sorted` holds all logits in
/// descending order, as base64 of little-endian float32; `top` names the first ones. Throws ShapeError if the model
/// does not predict words or the place does not exist.
Json logits_json(const InspectedModel& model, const Run& run, int64_t place);

}  // namespace attend
