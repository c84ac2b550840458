#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend info MODEL`: what a model folder holds.
void add_info(CLI::App& app);

}  // namespace attend::cli
