#include "io/chart_path.h"

#include <algorithm>
#include <cmath>

#include "io/chart_scale.h"

namespace attend {
namespace {

/// Calls visit(begin, end) for each run of points that lie within one column of `column` pixels.
template <class Visit>
void for_each_column(const std::vector<Point>& points, double column, Visit&& visit) {
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    const double number = std::floor(points[begin].x / column);
    while (end < points.size() && std::floor(points[end].x / column) == number) ++end;
    visit(begin, end);
  }
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points) {
  std::vector<Point> result;
  for_each_column(points, 1, [&](size_t begin, size_t end) {
    size_t lowest = begin, highest = begin;
    for (size_t i = begin; i < end; ++i) {
      if (points[i].y < points[lowest].y) lowest = i;
      if (points[i].y > points[highest].y) highest = i;
    }
    size_t kept[] = {begin, std::min(lowest, highest), std::max(lowest, highest), end - 1};
    const auto last = std::unique(std::begin(kept), std::end(kept));
    for (auto i = std::begin(kept); i != last; ++i) result.push_back(points[*i]);
  });
  return result;
}

std::vector<Point> means(const std::vector<Point>& points, double column) {
  std::vector<Point> result;
  for_each_column(points, column, [&](size_t begin, size_t end) {
    Point sum;
    for (size_t i = begin; i < end; ++i) sum = {sum.x + points[i].x, sum.y + points[i].y};
    const auto count = static_cast<double>(end - begin);
    result.push_back({sum.x / count, sum.y / count});
  });
  return result;
}

bool is_dense(const std::vector<Point>& points) {
  if (points.empty()) return false;
  return static_cast<double>(points.size()) > 4 * std::max(1.0, points.back().x - points.front().x);
}

std::string path_through(const std::vector<Point>& points) {
  std::string path;
  const char* command = "M";
  for (const Point& point : points) {
    path.append(command).append(fixed(point.x, 1)).append(" ").append(fixed(point.y, 1));
    command = "L";
  }
  if (points.size() == 1) path += "h0";  // a zero-length line with round caps is drawn as a dot
  return path;
}

}  // namespace attend
