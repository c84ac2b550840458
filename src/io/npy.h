#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace attend {

/// An f32 matrix [rows, width] as the bytes of a NumPy .npy file, version 1.0.
std::string npy_bytes(std::span<const float> values, int64_t rows, int64_t width);

}  // namespace attend
