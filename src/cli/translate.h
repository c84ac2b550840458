#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend translate MODEL TEXT…`: text through a model of pairs.
void add_translate(Command& app);

}  // namespace attend::cli
