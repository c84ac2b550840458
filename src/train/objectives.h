#pragma once

#include "attend/data/batches.h"
#include "attend/data/windows.h"
#include "attend/train/objective.h"

// One for each thing a model can learn: make_objective chooses.
namespace attend {

enum class Part { training, validation };
/// How a model's sentences are put into batches: shuffled to train, in order to validate.
BatchOptions batch_options(const Model& model, const TrainingOptions& options, Part part);
/// How a model's running text is read through windows.
WindowOptions window_options(const Model& model, const Dataset& data, const TrainingOptions& options, Part part);

std::unique_ptr<Objective> pair_objective(const PairModel& model, const Dataset& data, const TrainingOptions& options);
std::unique_ptr<Objective> language_objective(const LanguageModel& model, const Dataset& data,
                                              const TrainingOptions& options);
std::unique_ptr<Objective> label_objective(const EncoderModel& model, const Dataset& data,
                                           const TrainingOptions& options);
std::unique_ptr<Objective> masked_objective(const EncoderModel& model, const Dataset& data,
                                            const TrainingOptions& options);

}  // namespace attend
