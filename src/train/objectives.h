#pragma once

#include "attend/train/objective.h"

// One for each thing a model can learn: make_objective chooses.
namespace attend {

std::unique_ptr<Objective> pair_objective(const PairModel& model, const Dataset& data, const TrainingOptions& options);
std::unique_ptr<Objective> language_objective(const LanguageModel& model, const Dataset& data,
                                              const TrainingOptions& options);
std::unique_ptr<Objective> label_objective(const EncoderModel& model, const Dataset& data,
                                           const TrainingOptions& options);
std::unique_ptr<Objective> masked_objective(const EncoderModel& model, const Dataset& data,
                                            const TrainingOptions& options);

}  // namespace attend
