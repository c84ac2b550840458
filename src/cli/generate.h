#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend generate MODEL PROMPT`: text that goes on from a prompt.
void add_generate(Command& app);

}  // namespace attend::cli
