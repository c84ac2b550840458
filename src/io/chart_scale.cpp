#include "io/chart_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace attend {
namespace {

constexpr double kLargest = 1e150;  // keeps differences and ratios of two values finite

/// The step of 1, 2 or 5 times a power of ten that cuts `span` into about `wanted` pieces.
double nice_step(double span, int wanted) {
  const double raw = span / wanted, power = std::pow(10.0, std::floor(std::log10(raw))), digit = raw / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

std::string without_trailing_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string scientific(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 3).ptr;
  return {buffer, end};
}

/// The unit (k, M, G) that all labels of an axis share. Labels also share their number of decimals, apart from trailing
/// zeros, which are removed.
struct Unit {
  double size = 1;
  const char* name = "";
};
Unit unit_of(double largest) {
  if (largest >= 1e9) return {1e9, "G"};
  if (largest >= 1e6) return {1e6, "M"};
  if (largest >= 1e4) return {1e3, "k"};
  return {};
}

std::string label(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest < 1e-3 || largest >= 1e13) return scientific(value);
  const Unit unit = unit_of(largest);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step / unit.size) + 1e-9)));
  return without_trailing_zeros(fixed(value / unit.size, std::min(decimals, 12))) + unit.name;
}

std::vector<Tick> linear_ticks(const Range& range, int wanted) {
  const double step = nice_step(range.high - range.low, wanted), slack = 1e-6 * step;
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  std::vector<Tick> result;
  const double first = std::ceil((range.low - slack) / step), last = std::floor((range.high + slack) / step);
  for (double i = first; i <= last && result.size() < 100; ++i) {
    result.push_back({i * step, label(i * step, step, largest)});
  }
  return result;
}

/// Ticks at powers of ten, and at 2 and 5 times them where there is room.
std::vector<Tick> decade_ticks(const Range& range, int wanted) {
  const double low = std::log10(range.low), high = std::log10(range.high), decades = high - low;
  const double stride = std::max(1.0, std::ceil(decades / wanted));
  const bool halves = decades * 3 <= wanted + 1;
  std::vector<Tick> result;
  for (double power = std::floor(low / stride) * stride; power <= high + 1e-9; power += stride) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit > 1 && !halves) continue;
      const double value = digit * std::pow(10.0, power);
      const bool inside = value >= range.low * (1 - 1e-9) && value <= range.high * (1 + 1e-9);
      if (inside) result.push_back({value, value < 1e-3 ? scientific(value) : label(value, value, value)});
    }
  }
  return result;
}

}  // namespace

bool can_show(double value, bool logarithmic) {
  return std::abs(value) <= kLargest && (!logarithmic || value >= 1 / kLargest);  // false for NaN
}

double position(double value, const Range& range) {
  if (!range.logarithmic) return (value - range.low) / (range.high - range.low);
  return std::log(value / range.low) / std::log(range.high / range.low);
}

Range range_of(const std::vector<double>& values, bool logarithmic) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!can_show(value, logarithmic)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return {logarithmic ? 1.0 : 0.0, logarithmic ? 10.0 : 1.0, logarithmic};
  if (logarithmic) return low < high * (1 - 1e-9) ? Range{low, high, true} : Range{low / 2, high * 2, true};
  // Treat values as equal if doubles cannot resolve the space between them.
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low > 1e-9 * size && size > 1 / kLargest) return {low, high, false};
  const double margin = size > 1 / kLargest ? size / 2 : 1;
  return {low - margin, high + margin, false};
}

Range widened(Range range, int wanted_ticks) {
  if (range.logarithmic) {
    const double margin = std::pow(range.high / range.low, 0.03);
    return {range.low / margin, range.high * margin, true};
  }
  const double step = nice_step(range.high - range.low, wanted_ticks), slack = 1e-6;
  range.low = std::floor(range.low / step + slack) * step;
  range.high = std::ceil(range.high / step - slack) * step;
  return range;
}

std::vector<Tick> ticks(const Range& range, int wanted) {
  const bool within_a_decade = range.logarithmic && range.high / range.low < 12;
  return range.logarithmic && !within_a_decade ? decade_ticks(range, wanted) : linear_ticks(range, wanted);
}

std::string fixed(double value, int decimals) {
  char buffer[400];  // the largest double has 309 digits
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals).ptr;
  return {buffer, end};
}

std::string brief(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || (size != 0 && (size < 1e-3 || size >= 1e7))) return scientific(value);
  const int digits = size < 1 ? 0 : static_cast<int>(std::floor(std::log10(size)));
  return without_trailing_zeros(fixed(value, std::max(0, 3 - digits)));
}

}  // namespace attend
