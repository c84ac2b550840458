#pragma once

#include <array>
#include <string>
#include <vector>

#include "attend/inspect/picture.h"

// The layout of a picture of weights; picture_svg.cpp and picture_png.cpp write it as a file.
namespace attend {

using Colour = std::array<unsigned char, 3>;

/// One heat map: values, and where it is drawn.
struct HeatMap {
  std::string title, detail;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  int64_t x = 0, y = 0, width = 0, height = 0;
};

/// The font's size in pixels, the em of label widths.
constexpr int64_t kFontSize = 12;

/// A line of text. Its baseline starts at (x, y).
struct PictureLabel {
  std::string text;
  int64_t x = 0, y = 0;
  bool ends_here = false;    ///< the baseline ends at (x, y) instead
  bool runs_upward = false;  ///< turned by a quarter to the left
};

/// Everything a picture shows, in pixels from its top left corner.
struct HeatPicture {
  std::vector<HeatMap> maps;
  HeatMap legend;  ///< the colours from 0 to 1, one row
  std::vector<PictureLabel> labels;
  int64_t width = 0, height = 0;
  const Image* under = nullptr;  ///< what the maps are laid over
};

HeatPicture heat_picture(const Run& run, const PictureOptions& options);

/// What a weight looks like: opaque on paper, or laid over a picture.
struct Paint {
  Colour colour{};
  double opacity = 1;
};
Paint paint_of(float weight, bool is_laid_over);

}  // namespace attend
