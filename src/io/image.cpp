#include "attend/io/image.h"

#include <algorithm>

#include "attend/base/error.h"
#include "io/image_codecs.h"
#include "io/mapped_file.h"

namespace attend {
namespace {

bool begins_with(std::span<const std::byte> bytes, std::initializer_list<int> first) {
  return bytes.size() >= first.size() &&
         std::ranges::equal(first, bytes.first(first.size()), {}, {}, [](std::byte b) { return static_cast<int>(b); });
}
bool is_png(std::span<const std::byte> bytes) { return begins_with(bytes, {0x89, 'P', 'N', 'G', 0xd, 0xa, 0x1a, 0xa}); }
bool is_jpeg(std::span<const std::byte> bytes) { return begins_with(bytes, {0xff, 0xd8, 0xff}); }

/// Rotates and mirrors the image as the Exif orientation says.
Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool is_turned = orientation >= 5;  // rows and columns swap
  Image result{.width = is_turned ? image.height : image.width,
               .height = is_turned ? image.width : image.height,
               .pixels = std::vector<uint8_t>(image.pixels.size())};
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int64_t y = 0; y < result.height; ++y) {
    for (int64_t x = 0; x < result.width; ++x) {
      const int64_t column = is_turned ? y : x, row = is_turned ? x : y;
      for (int64_t c = 0; c < 3; ++c) {
        result.pixels[static_cast<size_t>((y * result.width + x) * 3 + c)] =
            image.at(from_right ? image.width - 1 - column : column, from_bottom ? image.height - 1 - row : row, c);
      }
    }
  }
  return result;
}

}  // namespace

void check_image_size(int64_t width, int64_t height, int64_t most_pixels) {
  require<FormatError>(width >= 1 && height >= 1, "image of ", width, " × ", height, " pixels is empty");
  require<FormatError>(width <= most_pixels / height, "image of ", width, " × ", height,
                       " pixels is too large; the limit is ", most_pixels, " pixels");
}

bool is_image(std::span<const std::byte> bytes) { return is_png(bytes) || is_jpeg(bytes); }

Image decode_image(std::span<const std::byte> bytes, const std::string& name, int64_t most_pixels) {
  try {
    if (is_png(bytes)) return decode_png(bytes, most_pixels);
    require<FormatError>(is_jpeg(bytes), "expected a PNG or a JPEG");
    return upright(decode_jpeg(bytes, most_pixels), jpeg_orientation(bytes));
  } catch (const FormatError& error) {
    throw FormatError(name + ": " + error.what());
  }
}

Image read_image(const std::string& path) {
  const MappedFile file = map_file(path);
  return decode_image(file.bytes, path);
}

Image center_cropped(const Image& image, ImageSize size) {
  require<ShapeError>(size.width >= 1 && size.height >= 1 && size.width <= kMostPixels / size.height,
                      "image: cannot crop to ", size.width, " × ", size.height, " pixels");
  Image result{.width = size.width,
               .height = size.height,
               .pixels = std::vector<uint8_t>(static_cast<size_t>(size.width * size.height * 3))};
  // The offset is ⌊difference / 2⌋, also where the image is smaller than the crop, as in transformers.
  const auto floor_half = [](int64_t value) { return value >= 0 ? value / 2 : -((1 - value) / 2); };
  const int64_t left = floor_half(image.width - size.width), top = floor_half(image.height - size.height);
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const int64_t from_x = x + left, from_y = y + top;
      if (from_x < 0 || from_x >= image.width || from_y < 0 || from_y >= image.height) continue;
      for (int64_t c = 0; c < 3; ++c) {
        result.pixels[static_cast<size_t>((y * size.width + x) * 3 + c)] = image.at(from_x, from_y, c);
      }
    }
  }
  return result;
}

}  // namespace attend
