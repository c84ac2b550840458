#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend tokenize`: text into tokens and back, and training of tokenizers.
void add_tokenize(Command& app);

}  // namespace attend::cli
