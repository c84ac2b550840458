#pragma once

#include <CLI/CLI.hpp>

namespace attend::cli {

/// `attend view MODEL…`: the page that shows what models attend to.
void add_view(CLI::App& app);

/// Opens a browser at the address, if there is a display to show one.
void open_browser(const std::string& address);

}  // namespace attend::cli
