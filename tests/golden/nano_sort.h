#pragma once

#include <string>

namespace attend::golden {

/// minGPT's model that sorts six digits: partials.safetensors has every step of its first block and what leaves the
/// others. The weights are read from NAME-model.json beside it, as its authors published them.
std::string check_nano_sort(const std::string& path);

}  // namespace attend::golden
