#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/activation.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

// Each function f(x) and its slope f'(x). Where f is x times a factor that vanishes at −∞, x is clamped at a point
// below which the product rounds to ±0, so that −∞ gives 0 rather than NaN.
template <class T>
constexpr T kNormalTail = sizeof(T) == 8 ? T{40} : T{14};
template <class T>
constexpr T kLogisticTail = sizeof(T) == 8 ? T{709} : T{88};

template <class D>
HWY_INLINE hn::Vec<D> Above(D d, hn::Vec<D> x, hn::TFromD<D> bound) {
  return hn::Max(hn::Set(d, -bound), x);
}
template <class D>
HWY_INLINE hn::Vec<D> Within(D d, hn::Vec<D> x, hn::TFromD<D> bound) {
  return hn::Min(hn::Set(d, bound), Above(d, x, bound));
}

struct Relu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, hn::TFromD<D>{1}));
  }
};

// x Φ(x) = max(x, 0) − a Φ(−a) with a = |x|: one form for both signs, without cancellation. For x < 0 the slope is the
// slope of the tail; for x > 0 it is 1 minus that, by symmetry.
struct Gelu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    const NormalTail<D> tail = NormalTailAt(d, x);
    return hn::NegMulAdd(tail.a, tail.cdf, hn::Max(hn::Zero(d), x));
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    const V below = NormalTailAt(d, x).slope;
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(hn::Set(d, hn::TFromD<D>{1}), below));
  }
};

// x · ½ (1 + tanh u) = x σ(2u) with u = √(2/π) (x + 0.044715 x³); slope s + x s (1 − s) · 2u'.
struct GeluTanh {
  static constexpr double kLinear = 1.59576912160573071175978, kCubic = 0.044715 * kLinear;
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    using T = hn::TFromD<D>;
    return hn::Mul(Above(d, x, kNormalTail<T>), gate(d, Within(d, x, kNormalTail<T>)).value);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    using T = hn::TFromD<D>;
    const V c = Within(d, x, kNormalTail<T>);
    const Logistic<D> s = gate(d, c);
    const V inner =
        hn::MulAdd(hn::Set(d, static_cast<T>(3 * kCubic)), hn::Mul(c, c), hn::Set(d, static_cast<T>(kLinear)));
    return hn::MulAdd(hn::Mul(hn::Mul(c, s.value), s.rest), inner, s.value);
  }

 private:
  template <class D, class V>
  HWY_INLINE Logistic<D> gate(D d, V x) const {
    using T = hn::TFromD<D>;
    const V inner = hn::MulAdd(hn::Set(d, static_cast<T>(kCubic)), hn::Mul(x, x), hn::Set(d, static_cast<T>(kLinear)));
    return LogisticAt(d, hn::Mul(x, inner));
  }
};

// x σ(x); slope s (1 + x (1 − s)).
struct Silu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Mul(Above(d, x, kLogisticTail<hn::TFromD<D>>), LogisticAt(d, x).value);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    const Logistic<D> s = LogisticAt(d, x);
    const V c = Within(d, x, kLogisticTail<hn::TFromD<D>>);
    return hn::Mul(s.value, hn::MulAdd(c, s.rest, hn::Set(d, hn::TFromD<D>{1})));
  }
};

struct TanhFunction {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return FullTanh(d, x);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    const V t = FullTanh(d, x);
    return hn::NegMulAdd(t, t, hn::Set(d, hn::TFromD<D>{1}));
  }
};

struct SigmoidFunction {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return LogisticAt(d, x).value;
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    const Logistic<D> s = LogisticAt(d, x);
    return hn::Mul(s.value, s.rest);
  }
};

struct ExpFunction {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return FullExp(d, x);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    return FullExp(d, x);
  }
};

struct LogFunction {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return FullLog(d, x);
  }
  template <class D, class V>
  HWY_INLINE V slope(D d, V x) const {
    return hn::Div(hn::Set(d, hn::TFromD<D>{1}), x);
  }
};

/// Calls f with the function object for `kind`.
template <class F>
void WithFunction(UnaryKind kind, F&& f) {
  switch (kind) {
    case UnaryKind::relu:
      return f(Relu{});
    case UnaryKind::gelu:
      return f(Gelu{});
    case UnaryKind::gelu_tanh:
      return f(GeluTanh{});
    case UnaryKind::silu:
      return f(Silu{});
    case UnaryKind::tanh:
      return f(TanhFunction{});
    case UnaryKind::sigmoid:
      return f(SigmoidFunction{});
    case UnaryKind::exp:
      return f(ExpFunction{});
    case UnaryKind::log:
      return f(LogFunction{});
  }
}

// Bottlenecks: relu is limited by memory bandwidth, the other functions by instructions of the multiplier class, two
// per cycle on AVX2. The forward pass of gelu has about 31 of them per vector, hence 16 cycles for 64 bytes of traffic
// (measured: 18). Memory at 20 GB/s per core would take 10 cycles.
template <class T, class Function>
void ApplyPiece(Function function, const T* HWY_RESTRICT x, T* HWY_RESTRICT y, int64_t count) {
  const hn::ScalableTag<T> d;
  Sweep(d, count, [&](auto place) { place.store(function.value(d, place.load(x)), y); });
}

template <class T, class Function>
void ApplySlopePiece(Function function, const T* HWY_RESTRICT dy, const T* HWY_RESTRICT x, T* HWY_RESTRICT dx,
                     int64_t count) {
  const hn::ScalableTag<T> d;
  Sweep(d, count, [&](auto place) { place.store(hn::Mul(place.load(dy), function.slope(d, place.load(x))), dx); });
}

void Unary(UnaryKind kind, ConstRows x, Rows y) {
  WithFloat(y.dtype, "unary", [&](auto type) {
    using T = decltype(type);
    WithFunction(kind, [&](auto function) {
      for_each_piece(y.rows, y.cols, x.stride == x.cols && y.stride == y.cols,
                     [&](const Piece& piece) { ApplyPiece<T>(function, piece.of<T>(x), piece.of<T>(y), piece.count); });
    });
  });
}

void UnaryBackward(UnaryKind kind, ConstRows dy, ConstRows x, Rows dx) {
  WithFloat(dx.dtype, "unary_backward", [&](auto type) {
    using T = decltype(type);
    WithFunction(kind, [&](auto function) {
      const bool dense = dy.stride == dy.cols && x.stride == x.cols && dx.stride == dx.cols;
      for_each_piece(dx.rows, dx.cols, dense, [&](const Piece& piece) {
        ApplySlopePiece<T>(function, piece.of<T>(dy), piece.of<T>(x), piece.of<T>(dx), piece.count);
      });
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Unary);
HWY_EXPORT(UnaryBackward);
void unary(UnaryKind kind, ConstRows x, Rows y) { ATTEND_DISPATCH(y.dtype, Unary)(kind, x, y); }
void unary_backward(UnaryKind kind, ConstRows dy, ConstRows x, Rows dx) {
  ATTEND_DISPATCH(dx.dtype, UnaryBackward)(kind, dy, x, dx);
}
}  // namespace attend::cpu
#endif
