#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend fill MODEL "… [MASK] …"`: the likeliest words for each mask.
void add_fill(CLI::App& app);

}  // namespace attend::cli
