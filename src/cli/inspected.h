#pragma once

#include <string>

#include "attend/inspect/document.h"
#include "cli/model_folder.h"

namespace attend::cli {

/// A model folder as a page shows it: its name without the rest of the path, and an example it was validated with, if
/// the folder still has its data.
InspectedModel open_inspected(const std::string& path);

/// Makes a picture file (- is the standard input) the model's example. Throws Error for a model that reads text.
void take_picture(InspectedModel& model, const std::string& file);

}  // namespace attend::cli
