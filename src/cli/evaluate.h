#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend evaluate MODEL FILES…`: how good a model is; `attend evaluate --hypotheses OUT REFERENCE…`: how good a text.
void add_evaluate(Command& app);

}  // namespace attend::cli
