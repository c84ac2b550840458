#pragma once

#include <memory>
#include <string>

#include "attend/hub/open_model.h"
#include "cli/shared_options.h"

namespace attend::cli {

using ModelFolder = OpenedModel;

/// Opens a model with its weights as the options say; see attend/hub/open_model.h.
ModelFolder open_model(const std::string& path, const WeightOptions& weights = {});
/// Goes by the rules of a task, unless it is "". Throws a usage error that lists the folder's tasks.
void choose_task(ModelFolder& folder, const std::string& task);

/// Says on standard error, in one line, which of the folder's rules of generation are not followed, if any.
void warn_unfollowed(const ModelFolder& folder);

// The model as a command needs it. Throws Error that says what kind of model it is, and names the command for it.
const PairModel& pair_model(const ModelFolder& folder);
const LanguageModel& language_model(const ModelFolder& folder);
/// An encoder that classifies texts.
const EncoderModel& labelled_model(const ModelFolder& folder);
/// An encoder that guesses masked words, and does nothing else: training a classifier leaves those layers behind.
const EncoderModel& masked_model(const ModelFolder& folder);
const ImageModel& image_model(const ModelFolder& folder);

}  // namespace attend::cli
