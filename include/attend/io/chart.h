#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Points joined by a line. One that is not finite (up to 1e150), or not positive on a logarithmic axis, leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x, y;
};

struct Chart {
  std::string title;
  std::string x_label, y_label;
  std::vector<Series> series;
  bool log_x = false, log_y = false;
  std::optional<double> y_min, y_max;  ///< where the data alone should not decide
  int width = 800, height = 480;       ///< in pixels; the picture scales with the page it is in
};

/// The chart as one SVG document: nothing is loaded from elsewhere, colours follow the reader's light or dark scheme,
/// and lines of many points are thinned to what can be seen. Few points are marked, and say their values when pointed
/// at. Text may be any bytes. The same chart gives the same bytes. Throws ShapeError for a series with unequally many x
/// and y, for a size below 160 × 120, for bounds that are not finite or not in order, and on a logarithmic axis not
/// positive.
std::string line_chart(const Chart& chart);

}  // namespace attend
