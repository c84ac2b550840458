#include "attend/inspect/picture.h"

#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "inspect/heat_map.h"
#include "io/base64.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr Colour kWhite{255, 255, 255}, kEdge{153, 153, 153};

std::string hexadecimal(const Colour& colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", colour[0], colour[1], colour[2]);
  return text.data();
}

std::string position(int64_t x, int64_t y) {
  return " x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"";
}
std::string size_of(int64_t width, int64_t height) {
  return " width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) + "\"";
}

void append_text(std::string& out, const std::string& place, const std::string& text) {
  out += "<text" + place + " fill=\"#333\">" + xml_text(text) + "</text>\n";
}

/// The cells of a map in units of one cell.
void append_cells(std::string& out, const HeatMap& map, bool is_laid_over) {
  if (!is_laid_over) out += "<rect" + size_of(map.columns, map.rows) + " fill=\"#fff\"/>";
  for (size_t i = 0; i < map.values.size(); ++i) {
    const Paint paint = paint_of(map.values[i], is_laid_over);
    if (paint.colour == kWhite) continue;
    out += "<path d=\"M" + std::to_string(i % static_cast<size_t>(map.columns)) + " " +
           std::to_string(i / static_cast<size_t>(map.columns)) + "h1v1h-1z\" fill=\"" + hexadecimal(paint.colour);
    if (is_laid_over) out += "\" fill-opacity=\"" + std::to_string(paint.opacity);
    out += "\"/>";
  }
}

void append_map(std::string& out, const HeatMap& map, bool is_laid_over) {
  if (is_laid_over) out += "<use href=\"#under\"" + position(map.x, map.y) + "/>";
  out += "<g transform=\"translate(" + std::to_string(map.x) + " " + std::to_string(map.y) + ") scale(" +
         std::to_string(static_cast<double>(map.width) / static_cast<double>(map.columns)) + " " +
         std::to_string(static_cast<double>(map.height) / static_cast<double>(map.rows)) + ")\"><title>" +
         xml_text(map.title + ", " + map.detail) + "</title>";
  append_cells(out, map, is_laid_over);
  out += "</g><rect" + position(map.x, map.y) + size_of(map.width, map.height) + " fill=\"none\" stroke=\"#999\"/>\n";
}

/// The picture below the maps, once; each map uses it.
void append_under(std::string& out, const Image& image, const HeatMap& map) {
  out += "<defs><image id=\"under\"" + size_of(map.width, map.height) + " href=\"data:image/png;base64,";
  const std::string png = encode_png(image);
  append_base64(out, std::as_bytes(std::span(png)));
  out += "\"/></defs>\n";
}

/// A picture that begins white.
class Raster {
 public:
  Raster(int64_t width, int64_t height)
      : image_{.width = width,
               .height = height,
               .pixels = std::vector<uint8_t>(static_cast<size_t>(width * height * 3), 255)} {}

  void fill(int64_t x, int64_t y, const Paint& paint) {
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = image_.pixels[static_cast<size_t>(3 * (y * image_.width + x)) + c];
      value = static_cast<uint8_t>(std::lround(std::lerp(value, paint.colour[c], paint.opacity)));
    }
  }
  void draw(const HeatMap& map, const Image* under) {
    for (int64_t y = 0; y < map.height; ++y) {
      for (int64_t x = 0; x < map.width; ++x) {
        const bool is_edge = x == 0 || y == 0 || x + 1 == map.width || y + 1 == map.height;
        const auto at = static_cast<size_t>(y * map.rows / map.height * map.columns + x * map.columns / map.width);
        if (under) fill(map.x + x, map.y + y, {.colour = {under->at(x, y, 0), under->at(x, y, 1), under->at(x, y, 2)}});
        fill(map.x + x, map.y + y, is_edge ? Paint{.colour = kEdge} : paint_of(map.values[at], under != nullptr));
      }
    }
  }
  std::string encoded() const { return encode_png(image_); }

 private:
  Image image_;
};

}  // namespace

std::string picture_svg(const Run& run, const PictureOptions& options) {
  const HeatPicture picture = heat_picture(run, options);
  const std::string size = std::to_string(picture.width) + " " + std::to_string(picture.height);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\"" +
                    size_of(picture.width, picture.height) +
                    " shape-rendering=\"crispEdges\" font-family=\"system-ui, 'Noto Sans CJK SC', sans-serif\" "
                    "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  const HeatMap& map = picture.maps[0];
  if (picture.under) append_under(out, *picture.under, map);
  std::string last;
  for (const HeatMap& one : picture.maps) {
    append_map(out, one, picture.under != nullptr);
    const int64_t bottom = picture.row_labels.empty() ? one.y : 2 * kMapGap + 34;
    if (one.title != std::exchange(last, one.title)) append_text(out, position(kMapGap, bottom - 24), one.title);
    append_text(out, position(picture.row_labels.empty() ? one.x : kMapGap, bottom - 7), one.detail);
  }
  for (size_t i = 0; i < picture.row_labels.size(); ++i) {
    const int64_t y = map.y + static_cast<int64_t>(i) * picture.cell + 15;
    append_text(out, position(map.x - 6, y) + " text-anchor=\"end\"", picture.row_labels[i]);
  }
  for (size_t i = 0; i < picture.column_labels.size(); ++i) {
    const int64_t x = map.x + static_cast<int64_t>(i) * picture.cell + 15;
    append_text(out,
                " transform=\"translate(" + std::to_string(x) + " " + std::to_string(map.y - 6) + ") rotate(-90)\"",
                picture.column_labels[i]);
  }
  return out + "</svg>\n";
}

std::string picture_png(const Run& run, const PictureOptions& options) {
  const HeatPicture picture = heat_picture(run, options);
  constexpr int64_t kLegend = 14;
  const int64_t width = std::max<int64_t>(picture.width, 120);
  Raster raster(width, picture.height + kLegend + kMapGap);
  const HeatMap& first = picture.maps[0];
  Image under;
  if (picture.under) under = resized(*picture.under, {first.width, first.height}, Resampling::bilinear);
  for (const HeatMap& map : picture.maps) raster.draw(map, picture.under ? &under : nullptr);
  for (int64_t x = kMapGap; x + kMapGap < width; ++x) {
    const auto share = static_cast<float>(x - kMapGap) / static_cast<float>(width - 2 * kMapGap - 1);
    for (int64_t y = 0; y < kLegend; ++y) {
      raster.fill(x, picture.height + y, paint_of(share, picture.under != nullptr));
    }
  }
  return raster.encoded();
}

}  // namespace attend
