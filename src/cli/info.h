#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend info MODEL`: what a model folder holds.
void add_info(Command& app);

}  // namespace attend::cli
