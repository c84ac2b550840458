#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "attend/io/image.h"

// PNG and JPEG decoders. They throw FormatError; the message does not name the file, the caller adds it.
namespace attend {

/// Throws FormatError if a side is below 1 or the image has more than `most_pixels` pixels.
void check_image_size(int64_t width, int64_t height, int64_t most_pixels);

Image decode_png(std::span<const std::byte> bytes, int64_t most_pixels);
Image decode_jpeg(std::span<const std::byte> bytes, int64_t most_pixels);

/// The Exif orientation of a JPEG, 1 … 8; 1 (upright) if the file does not say.
int jpeg_orientation(std::span<const std::byte> bytes);

}  // namespace attend
