#pragma once

#include <string>

// Models that others trained, with what they are known to give.
namespace attend::golden {

/// golden.json beside a model, or the activations of a minGPT in partials.safetensors.
bool is_real_model(const std::string& path);

/// Empty if the model gives what the file says, else what is wrong.
std::string check_real_model(const std::string& path);

}  // namespace attend::golden
