#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend inspect MODEL TEXT -o FILE`: what a model attends to, as a page, JSON or a picture.
void add_inspect(CLI::App& app);

}  // namespace attend::cli
