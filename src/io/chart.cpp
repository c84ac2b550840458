#include "attend/io/chart.h"

#include <algorithm>
#include <cmath>

#include "attend/base/error.h"
#include "io/chart_path.h"
#include "io/chart_scale.h"
#include "io/svg_text.h"

namespace attend {
namespace {

constexpr double kTitleSize = 17, kTextSize = 13, kLegendRow = 20, kKey = 18, kMargin = 16, kMeanColumn = 6;
constexpr size_t kColours = 8, kMarkedPoints = 40;

/// The palette of Okabe and Ito, which colour-blind readers can tell apart, in a darker and a lighter variant.
constexpr const char* kStyle = R"(
.attend-chart { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans",
  "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "Source Han Sans SC", sans-serif; }
.attend-chart text { fill: #444; font-size: 13px; }
.attend-chart .title { fill: #111; font-size: 17px; font-weight: 600; }
.attend-chart .back { fill: #fff; }
.attend-chart .grid { stroke: #e4e4e4; stroke-width: 1; }
.attend-chart .axis { stroke: #888; stroke-width: 1; }
.attend-chart .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.attend-chart .band { stroke-width: 1; opacity: 0.3; }
.attend-chart .dashed { stroke-dasharray: 7 5; }
.attend-chart .c0 { stroke: #0072b2; } .attend-chart .c1 { stroke: #d55e00; } .attend-chart .c2 { stroke: #009e73; }
.attend-chart .c3 { stroke: #c45d97; } .attend-chart .c4 { stroke: #b88700; } .attend-chart .c5 { stroke: #3a9fd8; }
.attend-chart .c6 { stroke: #6a4bb0; } .attend-chart .c7 { stroke: #555; }
.attend-chart .point { fill: #fff; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
.attend-chart text { fill: #bbb; }
.attend-chart .title { fill: #f2f2f2; }
.attend-chart .back, .attend-chart .point { fill: #17181c; }
.attend-chart .grid { stroke: #303238; }
.attend-chart .axis { stroke: #777; }
.attend-chart .c0 { stroke: #58b4ea; } .attend-chart .c1 { stroke: #ff8f4a; } .attend-chart .c2 { stroke: #2fcf9f; }
.attend-chart .c3 { stroke: #e79cc6; } .attend-chart .c4 { stroke: #e8bd45; } .attend-chart .c5 { stroke: #9bd8f9; }
.attend-chart .c6 { stroke: #ae97ec; } .attend-chart .c7 { stroke: #bbb; }
}
)";

std::string number(double value) { return fixed(value, 1); }

/// Draws one chart: lays out its parts first, then writes them from back to front.
class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    place_legend();
    place_plot();
  }

  std::string svg() {
    const std::string size = std::to_string(chart_.width) + " " + std::to_string(chart_.height);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
           std::to_string(chart_.width) + "\" height=\"" + std::to_string(chart_.height) +
           "\" class=\"attend-chart\" role=\"img\" aria-label=\"" + xml_text(chart_.title) + "\">\n<style>" + kStyle +
           "</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
    text({kMargin, kMargin + 12}, chart_.title, "start", "title");
    draw_legend();
    draw_axes();
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_series(i);
    return std::move(out_) + "</svg>\n";
  }

 private:
  double width() const { return chart_.width; }
  double height() const { return chart_.height; }
  double title_height() const { return chart_.title.empty() ? 0 : kTitleSize + 10; }

  /// Places the legend's entries from left to right in as many rows as needed. If no series has a name, there is no
  /// legend.
  void place_legend() {
    Point at{kMargin, kMargin + title_height() + kLegendRow / 2};
    for (const ChartSeries& series : chart_.series) {
      const double entry = kKey + 8 + text_width(series.name) * kTextSize + 18;
      if (at.x > kMargin && at.x + entry > width() - kMargin) at = {kMargin, at.y + kLegendRow};
      keys_.push_back(at);
      at.x += entry;
    }
    const bool named =
        std::ranges::any_of(chart_.series, [](const ChartSeries& series) { return !series.name.empty(); });
    if (!named) keys_.clear();
    legend_bottom_ = kMargin + title_height() + (keys_.empty() ? 0 : keys_.back().y - keys_.front().y + kLegendRow + 6);
  }

  void place_plot() {
    std::vector<double> xs, ys;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        xs.push_back(point.x);
        ys.push_back(point.y);
      }
    }
    top_ = legend_bottom_ + (chart_.y_label.empty() ? 8 : kTextSize + 14);
    bottom_ = height() - kMargin - kTextSize - 6 - (chart_.x_label.empty() ? 0 : kTextSize + 6);
    bottom_ = std::max(bottom_, top_ + 20);
    const int wanted = std::clamp(static_cast<int>((bottom_ - top_) / 55), 2, 10);
    y_ = widened(with_bounds(range_of(ys, chart_.log_y)), wanted);
    if (chart_.y_min) y_.low = *chart_.y_min;
    if (chart_.y_max) y_.high = *chart_.y_max;
    y_ticks_ = ticks(y_, wanted);
    double widest = 0;
    for (const Tick& tick : y_ticks_) widest = std::max(widest, text_width(tick.label));
    left_ = std::min(kMargin + widest * kTextSize + 8, width() / 2);
    right_ = width() - kMargin - 12;
    x_ = range_of(xs, chart_.log_x);
    x_ticks_ = ticks(x_, std::clamp(static_cast<int>((right_ - left_) / 80), 2, 12));
  }

  /// Applies y_min and y_max to `range` before it is rounded. If a bound would leave the range empty, moves the other
  /// end.
  Range with_bounds(Range range) const {
    const auto away = [&](double value, int direction) {
      if (range.logarithmic) return direction > 0 ? value * 10 : value / 10;
      return value + direction * std::max(1.0, std::abs(value) / 2);
    };
    if (chart_.y_min) range.low = *chart_.y_min;
    if (chart_.y_max) range.high = *chart_.y_max;
    if (range.low < range.high) return range;
    return chart_.y_min ? Range{range.low, away(range.low, 1), range.logarithmic}
                        : Range{away(range.high, -1), range.high, range.logarithmic};
  }

  double to_x(double value) const { return left_ + position(value, x_) * (right_ - left_); }
  double to_y(double value) const { return bottom_ - position(value, y_) * (bottom_ - top_); }

  void text(Point at, const std::string& content, const char* anchor, const char* kind = nullptr) {
    if (content.empty()) return;
    out_ += "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" text-anchor=\"" + anchor + "\"" +
            (kind != nullptr ? std::string(" class=\"") + kind + "\"" : "") + ">" + xml_text(content) + "</text>\n";
  }

  void line(Point from, Point to, const std::string& kind) {
    out_ += "<line class=\"" + kind + "\" x1=\"" + number(from.x) + "\" y1=\"" + number(from.y) + "\" x2=\"" +
            number(to.x) + "\" y2=\"" + number(to.y) + "\"/>\n";
  }

  /// The CSS class of a series. There are eight colours; series 9 to 16 repeat them with dashed lines.
  static std::string kind_of(size_t series) {
    std::string kind = "c";
    kind += std::to_string(series % kColours);
    return (series / kColours) % 2 == 1 ? kind + " dashed" : kind;
  }

  void draw_legend() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      line(keys_[i], {keys_[i].x + kKey, keys_[i].y}, "line " + kind_of(i));
      text({keys_[i].x + kKey + 8, keys_[i].y + kTextSize / 3}, chart_.series[i].name, "start");
    }
  }

  void draw_axes() {
    for (const Tick& tick : y_ticks_) {
      const double y = to_y(tick.value);
      line({left_, y}, {right_, y}, "grid");
      text({left_ - 8, y + kTextSize / 3}, tick.label, "end");
    }
    for (const Tick& tick : x_ticks_) {
      const double x = to_x(tick.value);
      line({x, bottom_}, {x, bottom_ + 5}, "axis");
      text({x, bottom_ + kTextSize + 8}, tick.label, "middle");
    }
    line({left_, bottom_}, {right_, bottom_}, "axis");
    text({kMargin, top_ - kTextSize}, chart_.y_label, "start");
    text({(left_ + right_) / 2, height() - kMargin + 2}, chart_.x_label, "middle");
  }

  bool is_shown(const ChartPoint& point) const {
    return can_show(point.x, chart_.log_x) && can_show(point.y, chart_.log_y);
  }
  /// A point outside y_min … y_max is drawn at the edge of the plot.
  Point place(const ChartPoint& point) const { return {to_x(point.x), std::clamp(to_y(point.y), top_, bottom_)}; }

  void path(const std::string& places, const std::string& kind) {
    if (!places.empty()) out_ += "<path class=\"line " + kind + "\" d=\"" + places + "\"/>\n";
  }

  void draw_series(size_t index) {
    const ChartSeries& series = chart_.series[index];
    std::string lines, bands;
    std::vector<Point> run;
    const auto end_run = [&] {
      const bool dense = is_dense(run);
      if (dense) bands += path_through(thinned(run));
      lines += path_through(dense ? means(run, kMeanColumn) : thinned(run));
      run.clear();
    };
    for (const ChartPoint& point : series.points) {
      if (is_shown(point))
        run.push_back(place(point));
      else
        end_run();
    }
    end_run();
    path(bands, "band " + kind_of(index));
    path(lines, kind_of(index));
    if (series.points.size() <= kMarkedPoints) draw_points(index);
  }

  void draw_points(size_t index) {
    const ChartSeries& series = chart_.series[index];
    for (const ChartPoint& point : series.points) {
      if (!is_shown(point)) continue;
      const Point at = place(point);
      out_ += "<circle class=\"point " + kind_of(index) + "\" cx=\"" + number(at.x) + "\" cy=\"" + number(at.y) +
              "\" r=\"3.5\"><title>" + xml_text(series.name) + (series.name.empty() ? "" : ": ") + brief(point.x) +
              ", " + brief(point.y) + "</title></circle>\n";
    }
  }

  const Chart& chart_;
  std::string out_;
  std::vector<Point> keys_;  // the left end of each legend entry
  double legend_bottom_ = 0, left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
  Range x_, y_;
  std::vector<Tick> x_ticks_, y_ticks_;
};

void check(const Chart& chart) {
  require<ShapeError>(chart.width >= 160 && chart.height >= 120, "chart: expected at least 160 × 120 pixels, got ",
                      chart.width, " × ", chart.height);
  for (const std::optional<double>& bound : {chart.y_min, chart.y_max}) {
    require<ShapeError>(!bound || can_show(*bound, chart.log_y), "chart: the axis cannot show the bound ",
                        bound.value_or(0));
  }
  const bool ordered = !chart.y_min || !chart.y_max || *chart.y_min < *chart.y_max;
  require<ShapeError>(ordered, "chart: expected y_min below y_max, got ", chart.y_min.value_or(0), " and ",
                      chart.y_max.value_or(0));
}

}  // namespace

std::string line_chart(const Chart& chart) {
  check(chart);
  return Drawing(chart).svg();
}

}  // namespace attend
