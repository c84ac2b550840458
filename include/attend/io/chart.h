#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attend {

struct ChartPoint {
  double x = 0, y = 0;
};

/// Points joined by a line. One that is not finite (up to 1e150), or not positive on a logarithmic axis, leaves a gap.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
};

struct Chart {
  std::string title;
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
  bool log_x = false, log_y = false;
  std::optional<double> y_min, y_max;  ///< where the data alone should not decide
  int width = 800, height = 480;       ///< in pixels; the picture scales with the page it is in
};

/// The chart as one SVG document: nothing is loaded from elsewhere, and colours follow the reader's light or dark
/// scheme. Points of a series of up to 40 are marked and say their values when pointed at. A line of more than four
/// points a pixel is drawn faint, with its mean over six pixels on top. Text may be any bytes. The same chart gives the
/// same bytes. Throws ShapeError for a size below 160 × 120, and for bounds that are not in order or that the axis
/// cannot show.
std::string line_chart(const Chart& chart);

}  // namespace attend
