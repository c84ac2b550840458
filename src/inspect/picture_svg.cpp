#include <cstdio>
#include <span>

#include "inspect/heat_map.h"
#include "io/base64.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr Colour kWhite{255, 255, 255};

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

void append_label(std::string& out, const PictureLabel& label) {
  out += "<text";
  if (label.runs_upward)
    out += " transform=\"translate(" + std::to_string(label.x) + " " + std::to_string(label.y) + ") rotate(-90)\"";
  else
    out += position(label.x, label.y);
  if (label.ends_here) out += " text-anchor=\"end\"";
  out += " fill=\"#333\">" + xml_text(label.text) + "</text>\n";
}

/// Appends the cells of a map; one unit of length is one cell.
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
  out += "<g transform=\"translate(" + std::to_string(map.x) + " " + std::to_string(map.y) + ") scale(" +
         std::to_string(static_cast<double>(map.width) / static_cast<double>(map.columns)) + " " +
         std::to_string(static_cast<double>(map.height) / static_cast<double>(map.rows)) + ")\">";
  if (!map.title.empty()) out += "<title>" + xml_text(map.title + ", " + map.detail) + "</title>";
  append_cells(out, map, is_laid_over);
  out += "</g><rect" + position(map.x, map.y) + size_of(map.width, map.height) + " fill=\"none\" stroke=\"#999\"/>\n";
}

/// Defines the image below the maps once; each map refers to it with <use>.
void append_under(std::string& out, const Image& image, const HeatMap& map) {
  out += "<defs><image id=\"under\"" + size_of(map.width, map.height) + " href=\"data:image/png;base64,";
  const std::string png = encode_png(image);
  append_base64(out, std::as_bytes(std::span(png)));
  out += "\"/></defs>\n";
}

}  // namespace

std::string picture_svg(const Run& run, const PictureOptions& options) {
  const HeatPicture picture = heat_picture(run, options);
  const std::string size = std::to_string(picture.width) + " " + std::to_string(picture.height);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\"" +
                    size_of(picture.width, picture.height) +
                    " shape-rendering=\"crispEdges\" font-family=\"system-ui, 'Noto Sans CJK SC', sans-serif\" "
                    "font-size=\"" +
                    std::to_string(kFontSize) + "\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  if (picture.under) append_under(out, *picture.under, picture.maps[0]);
  for (const HeatMap& map : picture.maps) {
    if (picture.under) out += "<use href=\"#under\"" + position(map.x, map.y) + "/>";
    append_map(out, map, picture.under != nullptr);
  }
  append_map(out, picture.legend, picture.under != nullptr);
  for (const PictureLabel& label : picture.labels) append_label(out, label);
  return out + "</svg>\n";
}

}  // namespace attend
