#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend generate MODEL PROMPT`: text that goes on from a prompt.
void add_generate(CLI::App& app);

}  // namespace attend::cli
