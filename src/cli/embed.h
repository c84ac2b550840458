#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend embed MODEL TEXT…`: a vector for each text.
void add_embed(CLI::App& app);

}  // namespace attend::cli
