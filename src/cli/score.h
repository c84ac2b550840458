#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend score MODEL`: how likely a model finds texts or pairs.
void add_score(Command& app);

}  // namespace attend::cli
