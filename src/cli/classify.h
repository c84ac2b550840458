#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend classify MODEL TEXT…`: labels for texts.
void add_classify(Command& app);

}  // namespace attend::cli
