#pragma once

#include <string>
#include <vector>

namespace attend {

/// A position in the chart, in pixels from the upper left corner.
struct Point {
  double x = 0, y = 0;
};

/// Keeps at most four points of each pixel column, in their original order: the first, the lowest, the highest and the
/// last. A line through them looks the same as a line through all points.
std::vector<Point> thinned(const std::vector<Point>& points);
/// The mean of the points in each column of `column` pixels.
std::vector<Point> means(const std::vector<Point>& points, double column);
/// True if there are more than four points for each horizontal pixel, so that a line through them looks like a band.
bool is_dense(const std::vector<Point>& points);

/// The `d` attribute of an SVG path through the points. A single point becomes a dot.
std::string path_through(const std::vector<Point>& points);

}  // namespace attend
