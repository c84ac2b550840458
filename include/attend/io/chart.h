#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attend {

struct ChartPoint {
  double x = 0, y = 0;
};

/// Points joined by a line. A point leaves a gap if it is not finite, exceeds 1e150, or is not positive on a
/// logarithmic axis.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
};

struct Chart {
  std::string title;
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
  bool log_x = false, log_y = false;
  std::optional<double> y_min, y_max;  ///< bounds of the y axis; default: from the data
  int width = 800, height = 480;       ///< in pixels; the chart scales with the page that contains it
};

/// The chart as a self-contained SVG document. Colours follow the reader's light or dark colour scheme. The points of a
/// series with at most 40 points are marked and have tooltips with their values. A line with more than four points per
/// pixel is drawn faint, with its mean over six pixels on top. Text may contain any bytes. The same chart gives the
/// same bytes. Throws ShapeError for a size below 160 × 120, and for bounds that are not in order or not possible on
/// the axis.
std::string line_chart(const Chart& chart);

}  // namespace attend
