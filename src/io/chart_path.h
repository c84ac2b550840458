#pragma once

#include <string>
#include <vector>

namespace attend {

/// A place in the picture, in pixels from its upper left corner.
struct Point {
  double x = 0, y = 0;
};

/// Of the points in one column of pixels, in the order they come: the first, the lowest, the highest and the last. A
/// line through them looks the same as one through all.
std::vector<Point> thinned(const std::vector<Point>& points);
/// The mean of the points in each column of so many pixels.
std::vector<Point> means(const std::vector<Point>& points, double column);
/// More than four points for each pixel they are spread over: a line through them is a band.
bool is_dense(const std::vector<Point>& points);

/// SVG's path through the points; a dot if there is but one.
std::string path_through(const std::vector<Point>& points);

}  // namespace attend
