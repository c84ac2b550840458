#pragma once

#include "attend/data/batches.h"
#include "attend/data/windows.h"
#include "attend/train/objective.h"

// The training objectives. make_objective chooses one.
namespace attend {

enum class Part { training, validation };
/// The batching of sentences: shuffled for training, in order for validation.
BatchOptions batch_options(const Model& model, const TrainingOptions& options, Part part);
/// How batches are padded: on a GPU to few different shapes.
BatchPadding batch_padding(const Model& model);
/// The windows over plain text.
WindowOptions window_options(const Model& model, const Dataset& data, const TrainingOptions& options, Part part);

std::unique_ptr<Objective> pair_objective(const PairModel& model, const Dataset& data, const TrainingOptions& options);
std::unique_ptr<Objective> language_objective(const LanguageModel& model, const Dataset& data,
                                              const TrainingOptions& options);
std::unique_ptr<Objective> label_objective(const EncoderModel& model, const Dataset& data,
                                           const TrainingOptions& options);
std::unique_ptr<Objective> masked_objective(const EncoderModel& model, const Dataset& data,
                                            const TrainingOptions& options);

}  // namespace attend
