#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "attend/io/image.h"

// Both throw FormatError without a file's name.
namespace attend {

/// Throws FormatError unless a picture of this size can be.
void check_image_size(int64_t width, int64_t height, int64_t most_pixels);

Image decode_png(std::span<const std::byte> bytes, int64_t most_pixels);
Image decode_jpeg(std::span<const std::byte> bytes, int64_t most_pixels);

/// The Exif orientation of a JPEG, 1 … 8; 1, as it is, where none is said.
int jpeg_orientation(std::span<const std::byte> bytes);

}  // namespace attend
