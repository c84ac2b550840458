#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend compare SOURCE TARGET -o DIR`: models with and without attention, by the length of sentences.
void add_compare(Command& app);

}  // namespace attend::cli
