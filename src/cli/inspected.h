#pragma once

#include <string>

#include "attend/inspect/document.h"
#include "cli/model_folder.h"

namespace attend::cli {

/// A model folder as a page shows it: its name without the rest of the path, and an example it was validated with, if
/// the folder still has its data.
InspectedModel open_inspected(const std::string& path);

}  // namespace attend::cli
