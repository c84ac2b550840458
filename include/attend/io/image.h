#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attend {

/// A picture: rows of pixels from the top, each a byte of red, green and blue.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  ///< height · width · 3

  uint8_t at(int64_t x, int64_t y, int64_t channel) const {
    return pixels[static_cast<size_t>((y * width + x) * 3 + channel)];
  }
};

/// Reads a PNG or a JPEG; gray ones and palettes become RGB, transparency is dropped, a JPEG is turned the way its Exif
/// data says. Throws FormatError that names the file and what is wrong with it.
Image read_image(const std::string& path);
/// The most pixels of a picture that is read: a file that claims more is damaged or hostile.
constexpr int64_t kMostPixels = int64_t{1} << 27;
/// The same from memory; `name` stands for the file in errors. A JPEG in more scans than
/// programs write, or that takes more than 4 bytes of memory for each of `most_pixels` beside its pixels, is refused.
Image decode_image(std::span<const std::byte> bytes, const std::string& name, int64_t most_pixels = kMostPixels);
/// Whether the bytes begin as a PNG or a JPEG does.
bool is_image(std::span<const std::byte> bytes);

/// The picture as a PNG. Throws ShapeError unless it has its pixels.
std::string encode_png(const Image& image);

/// How a picture is made smaller or larger, in the order of Pillow's numbers for them.
enum class Resampling { nearest, lanczos, bilinear, bicubic, box, hamming };
struct ImageSize {
  int64_t width = 0, height = 0;
};
/// The picture in another size, with Pillow's arithmetic: each pixel is a weighted mean of all that fall under the
/// filter, across and then down, in whole numbers. Throws ShapeError for a size below 1 or above what an image may
/// have.
Image resized(const Image& image, ImageSize size, Resampling resampling);
/// The middle of the picture; black where it is smaller than `size`.
Image center_cropped(const Image& image, ImageSize size);

}  // namespace attend
