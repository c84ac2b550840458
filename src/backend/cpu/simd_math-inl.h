// Vector mathematics shared by kernels. Included once for each instruction set, inside foreach_target.
#if defined(ATTEND_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_MATH_INL_H_
#undef ATTEND_SIMD_MATH_INL_H_
#else
#define ATTEND_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The Full* functions accept any argument, unlike Highway's functions. Min and Max are called with the bound as the
// first argument: on x86 they then return NaN if x is NaN.

/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r p.
template <class D>
struct ReducedExp {
  hn::Vec<D> shifted;  ///< n + 1.5·2^23: the low bits of the float hold the integer n
  hn::Vec<D> r, p;
};
inline constexpr float kRoundingMagic = 12582912.0f;                             // 1.5·2^23
inline constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-6f;  // in two parts, so that r is exact
/// Minimax polynomial e^r = 1 + r + k[0] r² + … + k[4] r⁶, with 1 + r exact; relative error 3.1e-9.
inline constexpr float kExp[5] = {4.9999993e-1f, 1.6666520e-1f, 4.1668394e-2f, 8.3687807e-3f, 1.3814466e-3f};

template <class D>
HWY_INLINE ReducedExp<D> ReduceExp(D d, hn::Vec<D> x) {
  const auto magic = hn::Set(d, kRoundingMagic);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  auto p = hn::MulAdd(r, hn::Set(d, kExp[4]), hn::Set(d, kExp[3]));
  p = hn::MulAdd(p, r, hn::Set(d, kExp[2]));
  p = hn::MulAdd(p, r, hn::Set(d, kExp[1]));
  p = hn::MulAdd(p, r, hn::Set(d, kExp[0]));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return {shifted, r, p};
}

/// x if x is NaN, else y.
template <class D>
HWY_INLINE hn::Vec<D> KeepNaN(D, hn::Vec<D> x, hn::Vec<D> y) {
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// 2^n (1 + r p), for results that are normal numbers.
template <class D>
HWY_INLINE hn::Vec<D> Restore(D d, const ReducedExp<D>& e) {
  const hn::RebindToSigned<D> di;
  const auto mantissa = hn::MulAdd(e.p, e.r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, e.shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, mantissa), exponent));
}

/// e^x for x <= 0, as needed by softmax: within 2 ulp, exactly 1 at 0, exactly 0 below -87.3 (in f32), including -inf.
/// Also valid for x up to 88.
template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto underflow = hn::Lt(x, hn::Set(d, -708.0));
    const auto result = hn::Exp(d, hn::Max(hn::Set(d, -708.0), x));
    return KeepNaN(d, x, hn::IfThenZeroElse(underflow, result));
  } else {
    const auto underflow = hn::Lt(x, hn::Set(d, -87.3f));
    return hn::IfThenZeroElse(underflow, Restore(d, ReduceExp(d, x)));
  }
}

/// 2^n for integers -126 <= n <= 127.
template <class D, class VI>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

/// e^x for any x: within 2 ulp, gradual underflow, overflow to inf.
template <class D>
HWY_INLINE hn::Vec<D> FullExp(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto inside = hn::Min(hn::Set(d, 710.0), hn::Max(hn::Set(d, -1000.0), x));
    return KeepNaN(d, x, hn::Exp(d, inside));
  } else {
    const hn::RebindToSigned<D> di;
    const ReducedExp<D> e = ReduceExp(d, hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -104.0f), x)));
    // 2^n may be outside the range of normal floats although the result is inside: multiply by it in two halves.
    const auto n = hn::Sub(hn::BitCast(di, e.shifted), hn::BitCast(di, hn::Set(d, kRoundingMagic)));
    const auto half = hn::ShiftRight<1>(n);
    const auto mantissa = hn::MulAdd(e.p, e.r, hn::Set(d, 1.0f));
    return hn::Mul(hn::Mul(mantissa, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
  }
}

/// ln x, within 1 ulp: -inf at 0, NaN for x < 0.
template <class D>
HWY_INLINE hn::Vec<D> FullLog(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  auto y = hn::IfThenElse(hn::Eq(x, infinity), x, hn::Log(d, x));
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), y);
  return KeepNaN(d, x, y);
}

/// σ(x) = 1 / (1 + e^−x) and 1 − σ(x). Both are computed from e^−|x|, so that a small value keeps all its digits.
template <class D>
struct Logistic {
  hn::Vec<D> value, rest;
};
template <class D>
HWY_INLINE Logistic<D> LogisticAt(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  const auto e = ExpNonPositive(d, hn::Neg(hn::Abs(x)));
  const auto larger = hn::Div(one, hn::Add(one, e)), smaller = hn::Mul(e, larger);
  const auto negative = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(negative, smaller, larger), hn::IfThenElse(negative, larger, smaller)};
}

/// tanh |x| = −m / (2 + m) with m = e^(−2|x|) − 1 = 2^n r p + (2^n − 1), which does not cancel near 0.
template <class D>
HWY_INLINE hn::Vec<D> FullTanh(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return KeepNaN(d, x, hn::Tanh(d, hn::Min(hn::Set(d, 20.0), hn::Max(hn::Set(d, -20.0), x))));
  } else {
    const hn::RebindToSigned<D> di;
    const auto doubled = hn::Mul(hn::Set(d, -2.0f), hn::Abs(x));
    const ReducedExp<D> e = ReduceExp(d, hn::Max(hn::Set(d, -80.0f), doubled));
    const auto n = hn::Sub(hn::BitCast(di, e.shifted), hn::BitCast(di, hn::Set(d, kRoundingMagic)));
    const auto power = PowerOfTwo(d, n);
    const auto m = hn::MulAdd(power, hn::Mul(e.r, e.p), hn::Sub(power, hn::Set(d, 1.0f)));
    return hn::CopySignToAbs(hn::Neg(hn::Div(m, hn::Add(hn::Set(d, 2.0f), m))), x);
  }
}

/// Calls a scalar function on each lane, for double precision where there is no vector version.
template <class D, class F>
HWY_INLINE hn::Vec<D> EachLane(D d, hn::Vec<D> x, F f) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}

/// The exact rounding error a² − square in single precision, where `square` is the rounded a².
template <class D>
HWY_INLINE hn::Vec<D> LostBySquare(D d, hn::Vec<D> a, hn::Vec<D> square) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulSub(a, a, square);
#else  // the product of 12-bit halves is exact (Dekker 1971); without FMA, MulSub would round a² as well
  const hn::RebindToUnsigned<D> bits;
  const auto high = hn::BitCast(d, hn::And(hn::BitCast(bits, a), hn::Set(bits, 0xfffff000u)));
  const auto low = hn::Sub(a, high);
  const auto rest = hn::Add(hn::Sub(hn::Mul(high, high), square), hn::Mul(hn::Add(high, high), low));
  return hn::Add(rest, hn::Mul(low, low));
#endif
}

/// e^(−a²/2) for 0 <= a <= 14 in single precision, within 2 ulp. e^ would magnify the rounding error of a², so that
/// error is added to the reduced argument. The argument is kept as −2r, which saves a multiplication by ½.
template <class D>
HWY_INLINE hn::Vec<D> ExpHalfSquare(D d, hn::Vec<D> a) {
  const auto square = hn::Mul(a, a), lost = LostBySquare(d, a, square);
  const auto magic = hn::Set(d, kRoundingMagic);
  const auto shifted = hn::MulAdd(square, hn::Set(d, -0.72134752f), magic);
  const auto n = hn::Sub(shifted, magic);
  auto t = hn::MulAdd(n, hn::Set(d, 2 * kLn2High), square);
  t = hn::Add(hn::MulAdd(n, hn::Set(d, 2 * kLn2Low), t), lost);
  auto p = hn::MulAdd(t, hn::Set(d, kExp[4] / 64), hn::Set(d, kExp[3] / -32));
  p = hn::MulAdd(p, t, hn::Set(d, kExp[2] / 16));
  p = hn::MulAdd(p, t, hn::Set(d, kExp[1] / -8));
  p = hn::MulAdd(p, t, hn::Set(d, kExp[0] / 4));
  p = hn::MulAdd(p, t, hn::Set(d, -0.5f));
  const auto underflow = hn::Gt(square, hn::Set(d, 174.6f));
  return hn::IfThenZeroElse(underflow, Restore(d, {shifted, t, p}));
}

/// The lower tail of the normal distribution at a = |x|. a is clamped where the tail becomes 0.
template <class D>
struct NormalTail {
  hn::Vec<D> a;
  hn::Vec<D> cdf;    ///< Φ(−a), within 4 ulp
  hn::Vec<D> slope;  ///< of −a Φ(−a) at −a: Φ(−a) − a φ(a)
};
template <class D>
HWY_INLINE NormalTail<D> NormalTailAt(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto density = hn::Set(d, static_cast<T>(0.398942280401432677939946));  // φ(0) = 1 / √2π
  const auto a = hn::Min(hn::Set(d, sizeof(T) == 8 ? T{40} : T{14}), hn::Abs(x));
  if constexpr (sizeof(T) == 8) {
    const auto cdf = EachLane(d, a, [](double v) { return 0.5 * std::erfc(v * 0.70710678118654752440); });
    const auto e = ExpNonPositive(d, hn::Mul(hn::Set(d, -0.5), hn::Mul(a, a)));
    return {a, cdf, hn::NegMulAdd(hn::Mul(a, density), e, cdf)};
  } else {
    const auto e = ExpHalfSquare(d, a);
    // Φ(−a) e^(a²/2) = erfcx(a/√2) / 2: minimax of degree 9 in u = (a − 3) / (a + 3) on 0 <= a <= 13.4, error 6.6e-9.
    // Evaluate even and odd terms separately: this halves the dependency chain after the division.
    const auto three = hn::Set(d, 3.0f);
    const auto u = hn::Div(hn::Sub(a, three), hn::Add(a, three));
    const auto u2 = hn::Mul(u, u);
    auto odd = hn::MulAdd(u2, hn::Set(d, 5.415024758e-5f), hn::Set(d, -3.3991108e-4f));
    auto even = hn::MulAdd(u2, hn::Set(d, 1.160364706e-4f), hn::Set(d, -9.841820257e-4f));
    odd = hn::MulAdd(odd, u2, hn::Set(d, 2.904702662e-3f));
    even = hn::MulAdd(even, u2, hn::Set(d, 6.132182874e-3f));
    odd = hn::MulAdd(odd, u2, hn::Set(d, -4.621331383e-2f));
    even = hn::MulAdd(even, u2, hn::Set(d, 1.232250217e-1f));
    odd = hn::MulAdd(odd, u2, hn::Set(d, -2.064026179e-1f));
    even = hn::MulAdd(even, u2, hn::Set(d, 1.215139477e-1f));
    const auto p = hn::MulAdd(odd, u, even);
    return {a, hn::Mul(e, p), hn::Mul(e, hn::NegMulAdd(a, density, p))};
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_MATH_INL_H_
