#pragma once

#include <string>

#include "attend/train/compare.h"
#include "cli/terminal.h"

namespace attend::cli {

/// Prints the table of BLEU by length, and a sentence on how much each model loses on long sentences.
void print_comparison(const Terminal& terminal, const Comparison& comparison, const std::string& folder);

}  // namespace attend::cli
