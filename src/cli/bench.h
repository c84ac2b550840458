#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend bench [NAME…]`: workloads timed against what the machine can do.
void add_bench(CLI::App& app);

}  // namespace attend::cli
