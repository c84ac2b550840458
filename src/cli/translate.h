#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend translate MODEL TEXT…`: text through a model of pairs.
void add_translate(CLI::App& app);

}  // namespace attend::cli
