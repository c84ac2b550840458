#pragma once

#include <optional>
#include <string>

#include "attend/hub/hub.h"

// The format of llama2.c: a header of seven numbers, then all weights as consecutive float32 values.
namespace attend::hub {

/// The weights file at `path`, or the only one in that folder; nullopt unless its size matches its header.
std::optional<std::string> find_llama2c(const std::string& path);

LoadedModel load_llama2c(const std::string& file);

}  // namespace attend::hub
