// Calls the body of a kernel with its element type. Included once for each instruction set.
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

/// Same as with_float(), but compiles f64 only for the baseline, where ATTEND_DISPATCH sends it.
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
