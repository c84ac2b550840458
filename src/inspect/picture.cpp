#include "attend/inspect/picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "attend/base/error.h"
#include "attend/inspect/arrays.h"
#include "attend/text/segment.h"
#include "inspect/summaries.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr int64_t kLabelled = 128, kMostCells = 512, kThumbnail = 64;
constexpr int64_t kThumbnailSize = 96, kGap = 12;
using Colour = std::array<unsigned char, 3>;

/// From white to a dark blue through green, in steps that are read alike with every kind of colour vision: corners of
/// the scale, mixed linearly.
Colour colour_of(float weight) {
  constexpr std::array<std::array<double, 3>, 5> kCorners{
      {{255, 255, 255}, {199, 233, 220}, {84, 174, 186}, {32, 98, 156}, {8, 29, 88}}};
  const double place = std::clamp(static_cast<double>(weight), 0.0, 1.0) * (kCorners.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), kCorners.size() - 2);
  Colour colour{};
  for (size_t i = 0; i < 3; ++i) {
    const double mixed = std::lerp(kCorners[below][i], kCorners[below + 1][i], place - static_cast<double>(below));
    colour[i] = static_cast<unsigned char>(std::lround(mixed));
  }
  return colour;
}

std::string hexadecimal(const Colour& colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", colour[0], colour[1], colour[2]);
  return text.data();
}

/// One heat map: values and where it is drawn.
struct Map {
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  int64_t x = 0, y = 0, width = 0, height = 0;
};

struct Picture {
  std::vector<Map> maps;
  std::vector<std::string> row_labels, column_labels;  // of the only map
  int64_t width = 0, height = 0, cell = 0;
};

std::vector<std::string> labels_of(const RunSide& side) {
  std::vector<std::string> labels;
  for (const ShownToken& token : side.tokens) labels.push_back(token.text == " " ? "␣" : visible(token.text));
  return labels;
}

int64_t widest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels) width = std::max(width, text_width(label));
  return static_cast<int64_t>(width * 13) + 12;
}

/// The place in Run::attention and the head of a picture's only map.
struct Chosen {
  int64_t attention = 0, head = 0;
};

Picture one_head(const Run& run, const Chosen& chosen) {
  const RunAttention& attention = attention_at(run, chosen.attention);
  check_head(attention, chosen.head);
  const std::string place = std::to_string(chosen.attention) + "/" + std::to_string(chosen.head);
  const int64_t longest = std::max(attention.queries(), attention.keys());
  require<ShapeError>(longest <= kMostCells, "inspect: a picture of one head shows at most ", kMostCells,
                      " tokens, got ", longest, "; all heads together are drawn small");
  const Array weights = run_array(run, "weights/" + place);
  Picture picture;
  picture.cell = longest <= kLabelled ? 22 : 2;
  Map map{.title = attention.trace.path + ", head " + std::to_string(chosen.head),
          .rows = weights.shape[0],
          .columns = weights.shape[1],
          .values = weights.values};
  int64_t left = kGap, top = kGap + 24;
  if (picture.cell > 2) {
    picture.row_labels = labels_of(run.sides[static_cast<size_t>(attention.query_side)]);
    picture.column_labels = labels_of(run.sides[static_cast<size_t>(attention.key_side)]);
    left += widest(picture.row_labels);
    top += widest(picture.column_labels);
  }
  map.x = left, map.y = top;
  map.width = map.columns * picture.cell, map.height = map.rows * picture.cell;
  picture.width = left + map.width + kGap, picture.height = top + map.height + kGap;
  picture.maps.push_back(std::move(map));
  return picture;
}

Picture overview(const Run& run, std::optional<int64_t> only) {
  if (only) attention_at(run, *only);
  Picture picture;
  int64_t y = kGap + 24;
  for (size_t a = 0; a < run.attention.size(); ++a) {
    if (only && *only != static_cast<int64_t>(a)) continue;
    const RunAttention& attention = run.attention[a];
    const Array all = run_array(run, "thumbnails/" + std::to_string(kThumbnail) + "/" + std::to_string(a));
    const auto size = static_cast<size_t>(all.shape[1] * all.shape[2]);
    for (int64_t head = 0; head < attention.heads(); ++head) {
      const auto first = all.values.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(head) * size);
      picture.maps.push_back({.title = attention.trace.path + ", head " + std::to_string(head),
                              .rows = all.shape[1],
                              .columns = all.shape[2],
                              .values = {first, first + static_cast<ptrdiff_t>(size)},
                              .x = kGap + head * (kThumbnailSize + kGap),
                              .y = y,
                              .width = kThumbnailSize,
                              .height = kThumbnailSize});
      picture.width = std::max(picture.width, picture.maps.back().x + kThumbnailSize + kGap);
    }
    y += kThumbnailSize + kGap + 24;
  }
  require<ShapeError>(!picture.maps.empty(), "inspect: the model has no attention to draw");
  picture.height = y - 24;
  return picture;
}

Picture picture_of(const Run& run, const PictureOptions& options) {
  if (!options.head) return overview(run, options.attention);
  require<ShapeError>(options.attention.has_value(), "inspect: a head belongs to a layer: choose one too");
  return one_head(run, {*options.attention, *options.head});
}

void append_map(std::string& out, const Map& map) {
  out += "<g transform=\"translate(" + std::to_string(map.x) + " " + std::to_string(map.y) + ") scale(" +
         std::to_string(static_cast<double>(map.width) / static_cast<double>(map.columns)) + " " +
         std::to_string(static_cast<double>(map.height) / static_cast<double>(map.rows)) + ")\"><title>" +
         xml_text(map.title) + "</title><rect width=\"" + std::to_string(map.columns) + "\" height=\"" +
         std::to_string(map.rows) + "\" fill=\"#fff\"/>";
  for (size_t i = 0; i < map.values.size(); ++i) {
    const Colour colour = colour_of(map.values[i]);
    if (colour == Colour{255, 255, 255}) continue;
    out += "<path d=\"M" + std::to_string(i % static_cast<size_t>(map.columns)) + " " +
           std::to_string(i / static_cast<size_t>(map.columns)) + "h1v1h-1z\" fill=\"" + hexadecimal(colour) + "\"/>";
  }
  out += "</g><rect x=\"" + std::to_string(map.x) + "\" y=\"" + std::to_string(map.y) + "\" width=\"" +
         std::to_string(map.width) + "\" height=\"" + std::to_string(map.height) +
         "\" fill=\"none\" stroke=\"#999\"/>\n<text x=\"";
}

/// Pixels of a picture, three bytes each.
class Raster {
 public:
  Raster(int64_t width, int64_t height)
      : width_(width), height_(height), bytes_(static_cast<size_t>(width * height * 3), 255) {}

  void fill(int64_t x, int64_t y, const Colour& colour) {
    std::ranges::copy(colour, bytes_.begin() + static_cast<ptrdiff_t>(3 * (y * width_ + x)));
  }
  void draw(const Map& map) {
    for (int64_t y = 0; y < map.height; ++y) {
      for (int64_t x = 0; x < map.width; ++x) {
        const bool is_edge = x == 0 || y == 0 || x + 1 == map.width || y + 1 == map.height;
        const auto at = static_cast<size_t>(y * map.rows / map.height * map.columns + x * map.columns / map.width);
        fill(map.x + x, map.y + y, is_edge ? Colour{153, 153, 153} : colour_of(map.values[at]));
      }
    }
  }
  std::string encoded() const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width_);
    image.height = static_cast<png_uint_32>(height_);
    image.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = 0;
    png_image_write_to_memory(&image, nullptr, &size, 0, bytes_.data(), 0, nullptr);
    std::string out(size, '\0');
    const int done = png_image_write_to_memory(&image, out.data(), &size, 0, bytes_.data(), 0, nullptr);
    require<Error>(done != 0, "inspect: cannot write the picture: ", image.message);
    out.resize(size);
    return out;
  }

 private:
  int64_t width_, height_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

std::string picture_svg(const Run& run, const PictureOptions& options) {
  const Picture picture = picture_of(run, options);
  const std::string size = std::to_string(picture.width) + " " + std::to_string(picture.height);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
                    std::to_string(picture.width) + "\" height=\"" + std::to_string(picture.height) +
                    "\" shape-rendering=\"crispEdges\" font-family=\"system-ui, 'Noto Sans CJK SC', sans-serif\" "
                    "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  for (const Map& map : picture.maps) {
    append_map(out, map);
    const bool is_only = picture.maps.size() == 1;
    const std::string shown = is_only ? map.title : map.title.substr(map.title.rfind("head"));
    const bool is_first = map.x == kGap;
    out += std::to_string(is_only ? kGap : map.x) + "\" y=\"" + std::to_string(is_only ? 20 : map.y - 6) +
           "\" fill=\"#333\">" + xml_text(is_first && !is_only ? map.title : shown) + "</text>\n";
  }
  const Map& map = picture.maps[0];
  for (size_t i = 0; i < picture.row_labels.size(); ++i) {
    out += "<text x=\"" + std::to_string(map.x - 6) + "\" y=\"" +
           std::to_string(map.y + static_cast<int64_t>(i) * picture.cell + 15) +
           "\" text-anchor=\"end\" fill=\"#333\">" + xml_text(picture.row_labels[i]) + "</text>\n";
  }
  for (size_t i = 0; i < picture.column_labels.size(); ++i) {
    out += "<text transform=\"translate(" + std::to_string(map.x + static_cast<int64_t>(i) * picture.cell + 15) + " " +
           std::to_string(map.y - 6) + ") rotate(-90)\" fill=\"#333\">" + xml_text(picture.column_labels[i]) +
           "</text>\n";
  }
  return out + "</svg>\n";
}

std::string picture_png(const Run& run, const PictureOptions& options) {
  const Picture picture = picture_of(run, options);
  constexpr int64_t kLegend = 14;
  const int64_t width = std::max<int64_t>(picture.width, 120);
  Raster raster(width, picture.height + kLegend + kGap);
  for (const Map& map : picture.maps) raster.draw(map);
  for (int64_t x = kGap; x + kGap < width; ++x) {
    const auto share = static_cast<float>(x - kGap) / static_cast<float>(width - 2 * kGap - 1);
    for (int64_t y = 0; y < kLegend; ++y) raster.fill(x, picture.height + y, colour_of(share));
  }
  return raster.encoded();
}

}  // namespace attend
