// Calls a kernel's body with its type. Included once for each instruction set.
#if defined(ATTEND_CPU_WITH_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_CPU_WITH_FLOAT_INL_H_
#undef ATTEND_CPU_WITH_FLOAT_INL_H_
#else
#define ATTEND_CPU_WITH_FLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/strided.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// As with_float(); f64 only where ATTEND_DISPATCH sends it, to the baseline.
template <class F>
void WithFloat(DType dtype, const char* kernel, F&& f) {
#if HWY_TARGET == HWY_STATIC_TARGET
  with_float(dtype, kernel, f);
#else
  check_float(dtype, kernel);
  f(float{});
#endif
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
