#pragma once

#include <string>

namespace attend::golden {

/// minGPT's model that sorts six digits. partials.safetensors has every step of its first block and the outputs of the
/// others. The weights are in NAME-model.json next to it, as published by its authors.
std::string check_nano_sort(const std::string& path);

}  // namespace attend::golden
