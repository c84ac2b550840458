#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attend {

/// An RGB image: rows of pixels from the top. Each pixel has one byte each for red, green and blue.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  ///< height · width · 3

  uint8_t at(int64_t x, int64_t y, int64_t channel) const {
    return pixels[static_cast<size_t>((y * width + x) * 3 + channel)];
  }
};

/// Reads a PNG or JPEG file. Converts grey and palette images to RGB, ignores transparency, and applies a JPEG's Exif
/// orientation. Throws a FormatError that names the file and the problem.
Image read_image(const std::string& path);
/// Maximum number of pixels of an image: a file with a larger size is damaged or malicious.
constexpr int64_t kMostPixels = int64_t{1} << 27;
/// Decodes a PNG or JPEG from memory. `name` is the file name in error messages. Throws FormatError for a JPEG with
/// more scans than encoders write, or one whose decoding needs more than 4 · most_pixels bytes besides the pixels.
Image decode_image(std::span<const std::byte> bytes, const std::string& name, int64_t most_pixels = kMostPixels);
/// Whether the bytes start with the signature of a PNG or a JPEG.
bool is_image(std::span<const std::byte> bytes);

/// Encodes an image as PNG. Throws ShapeError unless `pixels` has height · width · 3 bytes.
std::string encode_png(const Image& image);

/// Filters for resizing, in the order of Pillow's constants.
enum class Resampling { nearest, lanczos, bilinear, bicubic, box, hamming };
struct ImageSize {
  int64_t width = 0, height = 0;
};
/// Resizes an image with Pillow's integer arithmetic: each pixel is a weighted mean of the pixels under the filter,
/// first horizontally, then vertically. Throws ShapeError for a size below 1 or with more than kMostPixels pixels.
Image resized(const Image& image, ImageSize size, Resampling resampling);
/// The centre of the image. The result is padded with black if the image is smaller than `size`.
Image center_cropped(const Image& image, ImageSize size);

}  // namespace attend
