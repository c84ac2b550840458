#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend inspect MODEL TEXT -o FILE`: what a model attends to, as a page, JSON or a picture.
void add_inspect(Command& app);

}  // namespace attend::cli
