#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend bench [NAME…]`: workloads timed against what the machine can do.
void add_bench(Command& app);

}  // namespace attend::cli
