#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend demo`: trains a small Transformer to read dates, and shows what it can do and where it looks.
void add_demo(Command& app);

}  // namespace attend::cli
