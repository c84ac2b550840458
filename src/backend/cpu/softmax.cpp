#include "backend/cpu/cpu.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// y = e^(x − max) / Σ: one pass for the maximum, one for the powers and their sum, one to divide. The row stays in L1.
template <class T>
void SoftmaxRow(const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / lanes * lanes;
  const T lowest = -std::numeric_limits<T>::infinity();
  auto max = hn::Set(d, lowest);
  for (int64_t i = 0; i < whole; i += lanes) max = hn::Max(max, hn::LoadU(d, x + i));
  T top = hn::GetLane(hn::MaxOfLanes(d, max));
  for (int64_t i = whole; i < count; ++i) top = std::max(top, x[i]);

  const auto shift = hn::Set(d, top);
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < whole; i += lanes) {
    const auto e = ExpNonPositive(d, hn::Sub(hn::LoadU(d, x + i), shift));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, y + i);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  const hn::CappedTag<T, 1> one;
  for (int64_t i = whole; i < count; ++i) {
    y[i] = hn::GetLane(ExpNonPositive(one, hn::Set(one, x[i] - top)));
    total += y[i];
  }
  const T inverse = T{1} / total;
  for (int64_t i = 0; i < count; ++i) y[i] *= inverse;
}

void Softmax(ConstRows x, Rows y) {
  with_float(y.dtype, "softmax", [&](auto type) {
    using T = decltype(type);
    parallel_ranges(x.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, x.cols)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        SoftmaxRow(static_cast<const T*>(x.data) + row * x.stride, static_cast<T*>(y.data) + row * y.stride, x.cols);
      }
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Softmax);
void softmax(ConstRows x, Rows y) { HWY_DYNAMIC_DISPATCH(Softmax)(x, y); }
}  // namespace attend::cpu
#endif
