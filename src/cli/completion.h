#pragma once

#include <string>

#include "cli/command_line.h"

namespace attend::cli {

/// Scripts that complete commands, options, the choices of an option and file names in a shell.
std::string bash_completion(const Command& program);
std::string zsh_completion(const Command& program);
std::string fish_completion(const Command& program);

}  // namespace attend::cli
