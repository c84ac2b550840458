#pragma once

#include <string>

#include "attend/train/compare.h"
#include "cli/terminal.h"

namespace attend::cli {

/// The table of BLEU by length, and in words how much each model loses on long sentences.
void print_comparison(const Terminal& terminal, const Comparison& comparison, const std::string& folder);

}  // namespace attend::cli
