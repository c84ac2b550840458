#pragma once

#include <cmath>

#include "attend/base/error.h"

namespace attend {

/// Throws Error if a probability is NaN. One NaN logit makes its whole row NaN, so checking one value of a row
/// suffices.
inline void require_number(double value, const char* op) {
  require<Error>(!std::isnan(value), op, ": the model computed NaN: its weights are damaged");
}

}  // namespace attend
