#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend tokenize`: text into tokens and back, and training of tokenizers.
void add_tokenize(CLI::App& app);

}  // namespace attend::cli
