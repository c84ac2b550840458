#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend train ARCHITECTURE FILES… -o MODEL`: a model from the user's own text.
void add_train(CLI::App& app);

}  // namespace attend::cli
