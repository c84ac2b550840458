#pragma once

#include <array>
#include <string>
#include <vector>

#include "attend/inspect/picture.h"

// What a picture of weights consists of, before it is written as SVG or PNG.
namespace attend {

constexpr int64_t kMapGap = 12;
using Colour = std::array<unsigned char, 3>;

/// One heat map: values, and where it is drawn.
struct HeatMap {
  std::string title, detail;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  int64_t x = 0, y = 0, width = 0, height = 0;
};

struct HeatPicture {
  std::vector<HeatMap> maps;
  std::vector<std::string> row_labels, column_labels;  ///< of the only map
  int64_t width = 0, height = 0, cell = 0;
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
