#pragma once

#include <cstdint>

#include "attend/base/dtype.h"

namespace attend {

/// Calls f with an unsigned integer as wide as one element of `dtype`, for kernels that only move elements.
template <class F>
void with_bits(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace attend
