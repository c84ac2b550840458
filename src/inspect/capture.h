#pragma once

#include <chrono>

#include "attend/inspect/run.h"
#include "inspect/watcher.h"

// What captures of texts and of pictures have in common.
namespace attend {

/// Adds a side with its tokens. Throws ShapeError if one of it is to be held out that is not there.
void add_side(Run& run, RunSide side, const RunOptions& options);

/// Takes what was seen. Throws ShapeError if something was to be switched off that is not there.
void keep_seen(Run& run, Watcher& watcher, const RunOptions& options);

/// Throws Error, as every command that computes does, where a model computes NaN: its picture would show nothing.
void require_numbers(const Tensor& computed);

/// Labels with their probabilities, likeliest first. Throws Error for NaN.
RunOutput label_output(const std::vector<std::string>& labels, const Tensor& numbers,
                       LabelScores scores = LabelScores::shares);

/// Fulfils the rest: the time since `start`, and a place for summaries.
void finish_run(Run& run, std::chrono::steady_clock::time_point start);

}  // namespace attend
