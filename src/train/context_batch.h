#pragma once

#include "attend/train/objective.h"
#include "ops/context_part.h"

namespace attend {

/// Throws a SettingError that names the option if this model cannot be trained with options.context_parallel on this
/// number of processes.
void check_context_parallel(const Model& model, const TrainingOptions& options, int processes);

/// A process's part of a batch of sequences: its columns of each input, and the loss of its predictions. The mean loss
/// of `whole` is that of all parts, weighted by their numbers of predictions. `part` must outlive the result.
MicroBatch context_batch(MicroBatch whole, const ContextPart& part);

}  // namespace attend
