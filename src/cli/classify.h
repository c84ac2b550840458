#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend classify MODEL TEXT…`: labels for texts.
void add_classify(CLI::App& app);

}  // namespace attend::cli
