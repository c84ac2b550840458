#pragma once

#include <string>

// Published models with known outputs.
namespace attend::golden {

/// golden.json in a model's folder, or the activations of a minGPT in partials.safetensors.
bool is_real_model(const std::string& path);

/// Empty if the model matches the file, otherwise the mismatch.
std::string check_real_model(const std::string& path);

}  // namespace attend::golden
