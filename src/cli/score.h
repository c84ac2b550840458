#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend score MODEL`: how likely a model finds texts or pairs.
void add_score(CLI::App& app);

}  // namespace attend::cli
