#include <cmath>

#include "attend/text/utf8.h"
#include "inspect/heat_map.h"
#include "inspect/text_renderer.h"

namespace attend {
namespace {

constexpr Colour kMapEdge{153, 153, 153}, kInk{51, 51, 51};

/// A raster image, white at first. Coordinates are layout pixels; each becomes scale × scale pixels of the image.
class Raster {
 public:
  Raster(int64_t width, int64_t height, int64_t scale)
      : scale_(scale),
        image_{.width = width * scale,
               .height = height * scale,
               .pixels = std::vector<uint8_t>(static_cast<size_t>(width * height * scale * scale * 3), 255)} {}

  /// `under` must already have the size of the map in image pixels.
  void draw(const HeatMap& map, const Image* under, bool is_laid_over) {
    std::vector<Paint> paints;
    for (const float value : map.values) paints.push_back(paint_of(value, is_laid_over));
    const int64_t width = map.width * scale_, height = map.height * scale_;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const bool is_edge = x < scale_ || y < scale_ || x + scale_ >= width || y + scale_ >= height;
        const auto at = static_cast<size_t>(y * map.rows / height * map.columns + x * map.columns / width);
        const int64_t to_x = map.x * scale_ + x, to_y = map.y * scale_ + y;
        if (under) fill(to_x, to_y, {.colour = {under->at(x, y, 0), under->at(x, y, 1), under->at(x, y, 2)}});
        fill(to_x, to_y, is_edge ? Paint{.colour = kMapEdge} : paints[at]);
      }
    }
  }

  void draw(const PictureLabel& label, TextRenderer& renderer) {
    const TextBitmap text = renderer.draw(label.text);
    const int64_t before = label.ends_here ? text.advance : 0;
    for (int64_t row = 0; row < text.height; ++row) {
      for (int64_t column = 0; column < text.width; ++column) {
        const uint8_t ink = text.ink[static_cast<size_t>(row * text.width + column)];
        const int64_t along = text.left + column - before, below = row - text.top;
        const int64_t x = label.x * scale_ + (label.runs_upward ? below : along);
        const int64_t y = label.y * scale_ + (label.runs_upward ? -along - 1 : below);
        if (x < 0 || y < 0 || x >= image_.width || y >= image_.height) continue;
        fill(x, y, {.colour = kInk, .opacity = ink / 255.0});
      }
    }
  }

  std::string encoded() const { return encode_png(image_); }

 private:
  void fill(int64_t x, int64_t y, const Paint& paint) {
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = image_.pixels[static_cast<size_t>(3 * (y * image_.width + x)) + c];
      const bool is_opaque = paint.opacity == 1;
      value = is_opaque ? paint.colour[c]
                        : static_cast<uint8_t>(std::lround(std::lerp(value, paint.colour[c], paint.opacity)));
    }
  }

  int64_t scale_;
  Image image_;
};

/// A one-line warning that names the characters without a font and the packages to install. Empty if none is missing.
std::string font_warning(const TextRenderer& renderer) {
  if (!renderer.has_fonts())
    return "no fonts are installed, so the picture has no text; install fonts (Debian: fonts-dejavu-core, and "
           "fonts-noto-cjk for Chinese, Japanese and Korean)";
  const std::u32string& missing = renderer.missing();
  if (missing.empty()) return "";
  constexpr size_t kNamed = 8;
  const bool names_all = missing.size() <= kNamed;
  return "no installed font has " + to_utf8(missing.substr(0, kNamed)) +
         (names_all ? "" : " and " + std::to_string(missing.size() - kNamed) + " more characters") +
         ", drawn as boxes; install a font for them (Debian: fonts-noto-cjk for Chinese, Japanese and Korean, "
         "fonts-noto-core for other scripts)";
}

}  // namespace

PngPicture picture_png(const Run& run, const PictureOptions& options) {
  const HeatPicture picture = heat_picture(run, options);
  constexpr int64_t kSharpUpTo = 4'000'000;  // layout pixels; at scale 2 the image has four times as many
  const int64_t scale = picture.width * picture.height <= kSharpUpTo ? 2 : 1;
  Raster raster(picture.width, picture.height, scale);
  Image under;
  if (picture.under) {
    const HeatMap& first = picture.maps[0];
    under = resized(*picture.under, {first.width * scale, first.height * scale}, Resampling::bilinear);
  }
  const bool is_laid_over = picture.under != nullptr;
  for (const HeatMap& map : picture.maps) raster.draw(map, is_laid_over ? &under : nullptr, is_laid_over);
  raster.draw(picture.legend, nullptr, is_laid_over);
  TextRenderer renderer(kFontSize * scale);
  for (const PictureLabel& label : picture.labels) raster.draw(label, renderer);
  return {.bytes = raster.encoded(), .warning = font_warning(renderer)};
}

}  // namespace attend
