#pragma once

#include <string>
#include <vector>

namespace attend {

/// An interval of values and how it is laid out.
struct Range {
  double low = 0, high = 1;
  bool logarithmic = false;
};

/// Where a value lies in the range: 0 at its low end, 1 at its high end.
double position(double value, const Range& range);
/// Whether the value has a place on such an axis: finite (up to 1e150), and positive if logarithmic.
bool can_show(double value, bool logarithmic);

/// The smallest range that holds the values that can be shown, or 0 … 1 (1 … 10) if there are none; never without
/// extent.
Range range_of(const std::vector<double>& values, bool logarithmic);
/// The range widened to the next ticks.
Range widened(Range range, int wanted_ticks);

struct Tick {
  double value = 0;
  std::string label;
};
/// Round values within the range, about as many as wanted: steps of 1, 2 or 5 times a power of ten, or powers of ten.
std::vector<Tick> ticks(const Range& range, int wanted);

/// The number with so many decimals, whatever the locale.
std::string fixed(double value, int decimals);
/// A value as someone would note it: at most four digits that matter.
std::string brief(double value);

}  // namespace attend
