#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// The value subtracted before e^: the maximum, or 0 if the row is all −∞, so that every exponential is 0 and not NaN.
template <class T>
T Shift(T max) {
  return max == -std::numeric_limits<T>::infinity() ? T{0} : max;
}

// Lower bounds: memory bandwidth for both passes of the backward kernels. In the forward kernel, e^ takes about 6
// cycles for a vector of 8, hardly more than moving its 64 bytes from L3 (measured: 13, including the other passes over
// L1).

/// y = e^(x − max) / Σ in three passes: the maximum; the exponentials and their sum; the division. The row stays in L1.
template <class T>
void SoftmaxRow(const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const T lowest = -std::numeric_limits<T>::infinity();
  const auto shift = hn::Set(d, Shift(MaxOfRow(d, x, count)));
  const T sum = FoldSum(d, count, [&](auto place, auto total) {
    const auto e = ExpNonPositive(d, hn::Sub(place.load(x, lowest), shift));
    place.store(e, y);
    return hn::Add(total, e);
  });
  const auto inverse = hn::Set(d, sum == 0 ? T{0} : T{1} / sum);
  Sweep(d, count, [&](auto place) { place.store(hn::Mul(place.load(y), inverse), y); });
}

/// dx = y (dy − Σ dy y).
template <class T>
void SoftmaxBackwardRow(const T* dy, const T* y, T* dx, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto dot = hn::Set(
      d, FoldSum(d, count, [&](auto place, auto sum) { return hn::MulAdd(place.load(dy), place.load(y), sum); }));
  Sweep(d, count, [&](auto place) { place.store(hn::Mul(place.load(y), hn::Sub(place.load(dy), dot)), dx); });
}

/// max and log Σ e^(x − max). They are subtracted one after the other, because their sum would round away a small
/// logarithm.
template <class T>
void LogSoftmaxTerms(const T* x, T* terms, int64_t count) {
  const hn::ScalableTag<T> d;
  const T lowest = -std::numeric_limits<T>::infinity();
  terms[0] = Shift(MaxOfRow(d, x, count));
  const auto shift = hn::Set(d, terms[0]);
  const T sum = FoldSum(d, count, [&](auto place, auto total) {
    return hn::Add(total, ExpNonPositive(d, hn::Sub(place.load(x, lowest), shift)));
  });
  terms[1] = sum == 0 ? T{0} : std::log(sum);
}

/// y = x − max − log Σ e^(x − max).
template <class T>
void LogSoftmaxRow(const T* x, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  T terms[2];
  LogSoftmaxTerms(x, terms, count);
  const auto shift = hn::Set(d, terms[0]), log_sum = hn::Set(d, terms[1]);
  Sweep(d, count, [&](auto place) { place.store(hn::Sub(hn::Sub(place.load(x), shift), log_sum), y); });
}

/// dx = dy − e^y Σ dy.
template <class T>
void LogSoftmaxBackwardRow(const T* dy, const T* y, T* dx, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto sum =
      hn::Set(d, FoldSum(d, count, [&](auto place, auto total) { return hn::Add(total, place.load(dy)); }));
  Sweep(d, count,
        [&](auto place) { place.store(hn::NegMulAdd(ExpNonPositive(d, place.load(y)), sum, place.load(dy)), dx); });
}

void Softmax(ConstRows x, Rows y) {
  WithFloat(y.dtype, "softmax", [&](auto type) {
    using T = decltype(type);
    for_each_row(x.rows, x.cols, [&](int64_t row) { SoftmaxRow<T>(row_of<T>(x, row), row_of<T>(y, row), x.cols); });
  });
}

void SoftmaxBackward(ConstRows dy, ConstRows y, Rows dx) {
  WithFloat(y.dtype, "softmax", [&](auto type) {
    using T = decltype(type);
    for_each_row(y.rows, y.cols, [&](int64_t row) {
      SoftmaxBackwardRow<T>(row_of<T>(dy, row), row_of<T>(y, row), row_of<T>(dx, row), y.cols);
    });
  });
}

void LogSoftmax(ConstRows x, Rows y) {
  WithFloat(y.dtype, "log_softmax", [&](auto type) {
    using T = decltype(type);
    for_each_row(x.rows, x.cols, [&](int64_t row) { LogSoftmaxRow<T>(row_of<T>(x, row), row_of<T>(y, row), x.cols); });
  });
}

void LogSoftmaxTermsOfRows(ConstRows x, Rows terms) {
  WithFloat(x.dtype, "log_softmax", [&](auto type) {
    using T = decltype(type);
    for_each_row(x.rows, x.cols,
                 [&](int64_t row) { LogSoftmaxTerms<T>(row_of<T>(x, row), row_of<T>(terms, row), x.cols); });
  });
}

void LogSoftmaxBackward(ConstRows dy, ConstRows y, Rows dx) {
  WithFloat(y.dtype, "log_softmax", [&](auto type) {
    using T = decltype(type);
    for_each_row(y.rows, y.cols, [&](int64_t row) {
      LogSoftmaxBackwardRow<T>(row_of<T>(dy, row), row_of<T>(y, row), row_of<T>(dx, row), y.cols);
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Softmax);
HWY_EXPORT(SoftmaxBackward);
HWY_EXPORT(LogSoftmax);
HWY_EXPORT(LogSoftmaxBackward);
HWY_EXPORT(LogSoftmaxTermsOfRows);
void softmax(ConstRows x, Rows y) { ATTEND_DISPATCH(y.dtype, Softmax)(x, y); }
void softmax_backward(ConstRows dy, ConstRows y, Rows dx) { ATTEND_DISPATCH(y.dtype, SoftmaxBackward)(dy, y, dx); }
void log_softmax(ConstRows x, Rows y) { ATTEND_DISPATCH(y.dtype, LogSoftmax)(x, y); }
void log_softmax_backward(ConstRows dy, ConstRows y, Rows dx) {
  ATTEND_DISPATCH(y.dtype, LogSoftmaxBackward)(dy, y, dx);
}
void log_softmax_terms(ConstRows x, Rows terms) { ATTEND_DISPATCH(x.dtype, LogSoftmaxTermsOfRows)(x, terms); }
}  // namespace attend::cpu
#endif
