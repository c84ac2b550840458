#pragma once

#include <memory>
#include <string>

#include "attend/hub/open_model.h"
#include "cli/shared_options.h"

namespace attend::cli {

using ModelFolder = OpenedModel;

/// Opens a model with its weights in the requested format, on a device; see attend/hub/open_model.h.
ModelFolder open_model(const std::string& path, const WeightOptions& weights = {}, Device device = kCpu);
/// Applies the generation rules of `task` unless it is "". Throws a usage error that lists the folder's tasks.
void choose_task(ModelFolder& folder, const std::string& task);

/// Throws a usage error if --cache is given and has no effect on this model.
void check_cache(const ModelFolder& folder, const CacheOptions& cache);

/// Lists the folder's unsupported generation settings, if any, in one line on standard error.
void warn_unfollowed(const ModelFolder& folder);

// The model as the kind that a command needs. For another kind, throws Error that names the kind and its command.
const PairModel& pair_model(const ModelFolder& folder);
const LanguageModel& language_model(const ModelFolder& folder);
/// An encoder that classifies texts.
const EncoderModel& labelled_model(const ModelFolder& folder);
/// An encoder with a masked-word head and no labels: a classifier may still carry the head, but it is out of date.
const EncoderModel& masked_model(const ModelFolder& folder);
const ImageModel& image_model(const ModelFolder& folder);

}  // namespace attend::cli
