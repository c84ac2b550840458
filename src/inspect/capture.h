#pragma once

#include <chrono>

#include "attend/inspect/run.h"
#include "inspect/watcher.h"

// Shared by text captures and image captures.
namespace attend {

/// Adds a side with its tokens. Throws ShapeError if `options` ablate a token of this side that does not exist.
void add_side(Run& run, RunSide side, const RunOptions& options);

/// Moves the watcher's recorded attention and values into `run`. Throws ShapeError if `options` ablate a head or side
/// that does not exist.
void keep_seen(Run& run, Watcher& watcher, const RunOptions& options);

/// Records the model's equations and the vectors among its parameters.
void describe_model(Run& run, const Model& model);

/// Throws Error if the model computed NaN, as every command does: a picture of NaN would show nothing.
void require_numbers(const Tensor& computed);

/// Labels with their probabilities, most likely first. Throws Error for NaN.
RunOutput label_output(const std::vector<std::string>& labels, const Tensor& numbers,
                       LabelScores scores = LabelScores::shares);

/// Fills in the remaining fields: the time since `start`, and an empty cache of summaries.
void finish_run(Run& run, std::chrono::steady_clock::time_point start);

}  // namespace attend
