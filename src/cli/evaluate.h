#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend evaluate MODEL FILES…`: how good a model is; `attend evaluate --hypotheses OUT REFERENCE…`: how good a text.
void add_evaluate(CLI::App& app);

}  // namespace attend::cli
