#pragma once

#include <array>
#include <string>
#include <vector>

#include "attend/inspect/picture.h"

// The layout of a picture of attention weights. picture_svg.cpp and picture_png.cpp write it to a file.
namespace attend {

using Colour = std::array<unsigned char, 3>;

/// One heat map: its values and its position in the picture.
struct HeatMap {
  std::string title, detail;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  int64_t x = 0, y = 0, width = 0, height = 0;
};

/// Font size in pixels; label widths are given in multiples of it.
constexpr int64_t kFontSize = 12;

/// A line of text. Its baseline starts at (x, y).
struct PictureLabel {
  std::string text;
  int64_t x = 0, y = 0;
  bool ends_here = false;    ///< the baseline ends at (x, y) instead
  bool runs_upward = false;  ///< rotated 90° counter-clockwise
};

/// Everything a picture shows. Coordinates are pixels from the top left corner.
struct HeatPicture {
  std::vector<HeatMap> maps;
  HeatMap legend;  ///< the colours from 0 to 1, one row
  std::vector<PictureLabel> labels;
  int64_t width = 0, height = 0;
  const Image* under = nullptr;  ///< drawn below the maps; null for text
};

HeatPicture heat_picture(const Run& run, const PictureOptions& options);

/// How a weight is painted: opaque on white, or translucent on top of an image.
struct Paint {
  Colour colour{};
  double opacity = 1;
};
Paint paint_of(float weight, bool is_laid_over);

}  // namespace attend
