#pragma once

#include <chrono>
#include <vector>

#include "attend/inspect/document.h"

namespace attend {

/// What switching off one head does to the model's predictions.
struct HeadEffect {
  int64_t attention = 0, head = 0;
  double loss = 0;  ///< mean decrease of the log-probability of the tokens or of the label that the model predicts
};

/// Switches off each head in turn and compares the predictions, largest effect first. A generated target stays the
/// same. Runs the model once for each head: stops when `patience` is over, and then returns an empty list, as for a
/// model without predictions. Throws as capture does.
std::vector<HeadEffect> head_effects(const InspectedModel& model, RunOptions options,
                                     std::chrono::milliseconds patience = std::chrono::seconds(4));

}  // namespace attend
