#pragma once

#include "attend/base/dtype.h"

// Kernels in f32 are compiled for every instruction set and selected at run time. Kernels in f64 serve as a reference
// and are in no hot path. They are compiled for the baseline only, which halves the kernels' compile time.

/// Selects the kernel for a dtype; call it as ATTEND_DISPATCH(x.dtype, Softmax)(x, y). Requires HWY_EXPORT(kernel).
#define ATTEND_DISPATCH(dtype, kernel) \
  ((dtype) == DType::f64 ? HWY_STATIC_DISPATCH(kernel) : HWY_DYNAMIC_DISPATCH(kernel))
