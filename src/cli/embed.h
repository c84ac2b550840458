#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend embed MODEL TEXT…`: a vector for each text.
void add_embed(Command& app);

}  // namespace attend::cli
