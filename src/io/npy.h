#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace attend {

/// A matrix of f32 [rows, width] as a file of NumPy's format, version 1.0.
std::string npy_bytes(std::span<const float> values, int64_t rows, int64_t width);

}  // namespace attend
