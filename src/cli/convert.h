#pragma once

#include "cli/command_line.h"

namespace attend::cli {

void add_convert(Command& app);

}  // namespace attend::cli
