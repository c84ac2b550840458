#pragma once

#include <cstdlib>

namespace attend::distributed {

/// The number of seconds in an environment variable; `fallback` if it has none.
inline double seconds_in(const char* variable, double fallback) {
  const char* text = std::getenv(variable);
  const double value = text != nullptr ? std::strtod(text, nullptr) : 0;
  return value > 0 ? value : fallback;
}

/// How many seconds a process waits for the others in one operation: one of them may hang although its heart beats.
inline double patience() {
  static const double seconds = seconds_in("ATTEND_PATIENCE", 3600);
  return seconds;
}

constexpr const char* kImpatience =
    "a process has waited for the others for too long; ATTEND_PATIENCE sets the limit in seconds";

}  // namespace attend::distributed
