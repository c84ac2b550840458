#pragma once

#include <optional>
#include <string>

#include "attend/hub/hub.h"

// The format of llama2.c: seven numbers, then all weights as float32, one behind the other.
namespace attend::hub {

/// The file of weights that `path` is, or the only one in it; nothing unless its size is what its header says.
std::optional<std::string> find_llama2c(const std::string& path);

LoadedModel load_llama2c(const std::string& file);

}  // namespace attend::hub
