#pragma once

#include "attend/base/dtype.h"

// Kernels in f32 are compiled for every instruction set and chosen at run time. Those in f64, which check the others
// and are in no hot path, are compiled for the baseline alone: that saves half of the kernels' compile time.

/// The kernel for a dtype, to be called: ATTEND_DISPATCH(x.dtype, Softmax)(x, y). After HWY_EXPORT(kernel).
#define ATTEND_DISPATCH(dtype, kernel) \
  ((dtype) == DType::f64 ? HWY_STATIC_DISPATCH(kernel) : HWY_DYNAMIC_DISPATCH(kernel))
