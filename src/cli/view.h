#pragma once

#include "cli/command_line.h"

namespace attend::cli {

/// `attend view MODEL…`: the page that shows what models attend to.
void add_view(Command& app);

/// Opens a browser at the address, if there is a display to show one.
void open_browser(const std::string& address);

}  // namespace attend::cli
