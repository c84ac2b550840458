#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend train ARCHITECTURE FILES… -o MODEL`: a model from the user's own text.
void add_train(Command& app);

}  // namespace attend::cli
