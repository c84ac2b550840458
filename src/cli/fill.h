#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend fill MODEL "… [MASK] …"`: the likeliest words for each mask.
void add_fill(Command& app);

}  // namespace attend::cli
