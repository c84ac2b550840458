#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend compare SOURCE TARGET -o DIR`: models with and without attention, by the length of sentences.
void add_compare(CLI::App& app);

}  // namespace attend::cli
