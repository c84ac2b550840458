#pragma once

#include <string>

#include "attend/inspect/document.h"
#include "cli/model_folder.h"

namespace attend::cli {

/// Opens a model folder for the page: with the last component of the path as its name, and a validation example if the
/// folder still has its data.
InspectedModel open_inspected(const std::string& path, Device device, const WeightOptions& weights = {});

/// Makes an image file (- is standard input) the model's example. Throws Error for a model that reads text.
void take_picture(InspectedModel& model, const std::string& file);

}  // namespace attend::cli
