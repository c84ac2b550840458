#include "attend/io/chart.h"

#include <cmath>
#include <limits>
#include <locale>

#include "io/chart_path.h"
#include "io/chart_scale.h"
#include "io/svg_text.h"
#include "testing/gradients.h"

namespace attend {
namespace {

using testing::expect_error;
using Labels = std::vector<std::string>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Labels labels(const Range& range, int wanted) {
  Labels result;
  for (const Tick& tick : ticks(range, wanted)) result.push_back(tick.label);
  return result;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// Whether all tags are closed in the right order and all text is escaped.
bool is_well_formed(const std::string& xml) {
  Labels open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (count(tag, "\"") % 2 != 0 || tag.find('<') != std::string::npos) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty();
}

TEST(Ticks, RoundStepsOfOneTwoOrFive) {
  EXPECT_EQ(labels({0, 1}, 5), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(labels({0, 26000}, 5), (Labels{"0", "5k", "10k", "15k", "20k", "25k"}));
  EXPECT_EQ(labels({1.7, 3.1}, 6), (Labels{"1.8", "2", "2.2", "2.4", "2.6", "2.8", "3"}));
  EXPECT_EQ(labels({-15, 25}, 4), (Labels{"-10", "0", "10", "20"}));
  EXPECT_EQ(labels({0, 3e6}, 3), (Labels{"0", "1M", "2M", "3M"}));
  EXPECT_EQ(labels({0, 5e-5}, 5), (Labels{"0", "1e-05", "2e-05", "3e-05", "4e-05", "5e-05"}));
  EXPECT_EQ(labels({1000, 1001}, 2), (Labels{"1000", "1000.5", "1001"}));
}

TEST(Ticks, PowersOfTen) {
  EXPECT_EQ(labels({1, 1e5, true}, 6), (Labels{"1", "10", "100", "1000", "10k", "100k"}));
  EXPECT_EQ(labels({1, 100, true}, 8), (Labels{"1", "2", "5", "10", "20", "50", "100"}));
  EXPECT_EQ(labels({2, 9, true}, 7), (Labels{"2", "3", "4", "5", "6", "7", "8", "9"})) << "less than a decade";
  EXPECT_EQ(labels({1e-6, 1, true}, 4), (Labels{"1e-06", "0.0001", "0.01", "1"}));
}

TEST(Ranges, IgnoreValuesThatCannotBeShown) {
  const std::vector<double> values{kInfinity, 3, NAN, -2, 1e301}, none{NAN}, one{5}, zero{0};
  EXPECT_EQ(range_of(values, false).low, -2);
  EXPECT_EQ(range_of(values, false).high, 3);
  const Range logarithmic = range_of(values, true);
  EXPECT_LT(logarithmic.low, 3);
  EXPECT_GT(logarithmic.high, 3);
  EXPECT_EQ(range_of(none, false).high, 1);
  EXPECT_LT(range_of(one, false).low, 5);
  EXPECT_GT(range_of(zero, false).high, 0);
  EXPECT_DOUBLE_EQ(position(10, {1, 100, true}), 0.5);
  EXPECT_DOUBLE_EQ(position(25, {0, 100}), 0.25);
}

TEST(Paths, ThinningKeepsTheVisibleShape) {
  const std::vector<Point> points{{0.1, 5}, {0.2, 1}, {0.3, 9}, {0.4, 4}, {0.5, 6}, {1.5, 2}};
  const std::vector<Point> kept = thinned(points);
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept[1].y, 1);
  EXPECT_EQ(kept[2].y, 9);
  EXPECT_EQ(kept[3].y, 6);
  EXPECT_EQ(path_through({{1, 2}, {3, 4.25}}), "M1.0 2.0L3.0 4.2");
  EXPECT_EQ(path_through({{1, 2}}), "M1.0 2.0h0");
  EXPECT_EQ(path_through({}), "");
  EXPECT_DOUBLE_EQ(means(points, 10)[0].y, 4.5);
  EXPECT_TRUE(is_dense(points));
  EXPECT_FALSE(is_dense({{0, 1}, {100, 2}}));
}

TEST(SvgText, AnyBytesBecomeXml) {
  EXPECT_EQ(xml_text("a < b & \"c\" > d"), "a &lt; b &amp; &quot;c&quot; &gt; d");
  EXPECT_EQ(xml_text("训练 😀"), "训练 😀");
  EXPECT_EQ(xml_text("a\x1b\xff\xe4\xbb"
                     "b\ufffe"),
            "a����b�");
  EXPECT_GT(text_width("训练"), text_width("ab"));
}

TEST(Chart, ContainsItsTextAndLines) {
  const std::string svg = line_chart({.title = "损失 <a>",
                                      .x_label = "steps",
                                      .y_label = "loss",
                                      .series = {{"training", {{1, 3}, {2, 2}, {3, 1}}}, {"验证", {{1, 4}, {3, 2}}}}});
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 480\""));
  for (const char* text : {">损失 &lt;a&gt;</text>", ">steps</text>", ">loss</text>", ">training</text>",
                           ">验证</text>", "prefers-color-scheme: dark", "training: 2, 2</title>"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(count(svg, "<path"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 5u);
  EXPECT_EQ(svg, line_chart({.title = "损失 <a>",
                             .x_label = "steps",
                             .y_label = "loss",
                             .series = {{"training", {{1, 3}, {2, 2}, {3, 1}}}, {"验证", {{1, 4}, {3, 2}}}}}));
}

TEST(Chart, NonFiniteValuesLeaveAGap) {
  const auto path = [](const Chart& chart) {
    const std::string svg = line_chart(chart);
    const size_t begin = svg.find("d=\"M") + 3;
    return svg.substr(begin, svg.find('"', begin) - begin);
  };
  const ChartSeries series{"s", {{1, 1}, {2, 2}, {3, NAN}, {4, 3}, {5, -1}}};
  EXPECT_EQ(count(path({.series = {series}}), "M"), 2u);
  EXPECT_EQ(count(path({.series = {series}}), "L"), 2u);
  EXPECT_EQ(count(path({.series = {series}, .log_y = true}), "L"), 1u) << "-1 has no logarithm";
}

TEST(Chart, ManyPointsStaySmall) {
  ChartSeries series{.name = "noise"};
  for (int i = 0; i < 1000000; ++i) series.points.push_back({static_cast<double>(i), std::sin(i * 12.9898)});
  const std::string svg = line_chart({.series = {series}});
  EXPECT_LT(svg.size(), 60000u);
  EXPECT_EQ(count(svg, "class=\"line band"), 1u);
  EXPECT_EQ(count(svg, "<circle"), 0u);
}

TEST(Chart, BoundsAreKept) {
  const std::string svg = line_chart({.series = {{"s", {{1, 50}, {2, 200}}}}, .y_min = 0, .y_max = 100});
  EXPECT_NE(svg.find(">0</text>"), std::string::npos);
  EXPECT_NE(svg.find(">100</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">120</text>"), std::string::npos);
  const std::string above = line_chart({.series = {{"s", {{1, 1}, {2, 2}}}}, .y_min = 10});
  EXPECT_TRUE(is_well_formed(above));
  EXPECT_EQ(above.find("nan"), std::string::npos);
}

TEST(Chart, ExtremeValuesAreDrawn) {
  const std::vector<std::vector<double>> lists{{},
                                               {NAN, NAN},
                                               {0, 0},
                                               {1e308, -1e308},
                                               {5e-324, 1e-310},
                                               {1e300, -1e300},
                                               {1, 1 + 1e-15},
                                               {kInfinity, -kInfinity},
                                               {1e-300, 1e300},
                                               {1e-150, 1e150},
                                               {-1e150, 1e150}};
  for (const auto& x : lists) {
    for (const auto& y : lists) {
      ChartSeries series{.name = "s"};
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) series.points.push_back({x[i], y[i]});
      for (const bool logarithmic : {false, true}) {
        const std::string svg =
            line_chart({.series = {series}, .log_x = logarithmic, .log_y = logarithmic, .width = 160, .height = 120});
        EXPECT_TRUE(is_well_formed(svg));
        EXPECT_EQ(svg.find("\"nan"), std::string::npos);
        EXPECT_EQ(svg.find("\"inf"), std::string::npos);
      }
    }
  }
}

TEST(Chart, NumbersDoNotDependOnTheLocale) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const Chart chart{.series = {{"s", {{1000, 0.25}, {20000, 1234567}}}}};
  const std::string before = line_chart(chart);
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string after = line_chart(chart);
  std::locale::global(old);
  EXPECT_EQ(before, after);
}

TEST(Chart, RefusesInvalidOptions) {
  expect_error<ShapeError>([] { line_chart({.width = 10}); },
                           "chart: expected at least 160 × 120 pixels, got 10 × 480");
  expect_error<ShapeError>([] { line_chart({.y_min = 2, .y_max = 1}); },
                           "chart: expected y_min below y_max, got 2 and 1");
  expect_error<ShapeError>([] { line_chart({.log_y = true, .y_min = 0}); }, "chart: the axis cannot show the bound 0");
}

}  // namespace
}  // namespace attend
