#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend demo`: trains a small Transformer to read dates, and shows what it can do and where it looks.
void add_demo(CLI::App& app);

}  // namespace attend::cli
