#pragma once

#include <cmath>

#include "attend/base/error.h"

namespace attend {

/// Throws Error if a probability is no number: one logit that is none makes all of a row so.
inline void require_number(double value, const char* op) {
  require<Error>(!std::isnan(value), op, ": the model's numbers are not finite: its weights are damaged");
}

}  // namespace attend
