#pragma once

#include <string>
#include <vector>

namespace attend {

/// An interval of values on a linear or logarithmic axis.
struct Range {
  double low = 0, high = 1;
  bool logarithmic = false;
};

/// The position of a value in the range: 0 at the low end, 1 at the high end.
double position(double value, const Range& range);
/// Whether an axis can show the value: finite (up to 1e150), and positive if logarithmic.
bool can_show(double value, bool logarithmic);

/// The smallest range that holds all values that can be shown; 0 … 1 (logarithmic: 1 … 10) if there are none. Never
/// empty: low < high.
Range range_of(const std::vector<double>& values, bool logarithmic);
/// The range widened to the next ticks.
Range widened(Range range, int wanted_ticks);

struct Tick {
  double value = 0;
  std::string label;
};
/// About `wanted` round values within the range: multiples of 1, 2 or 5 times a power of ten, or powers of ten if
/// logarithmic.
std::vector<Tick> ticks(const Range& range, int wanted);

/// The number with `decimals` decimals, independent of the locale.
std::string fixed(double value, int decimals);
/// The number with at most four significant digits.
std::string brief(double value);

}  // namespace attend
