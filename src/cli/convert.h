#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

void add_convert(CLI::App& app);

}  // namespace attend::cli
