// Vector mathematics shared by kernels. Included once for each instruction set, inside foreach_target.
#if defined(ATTEND_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_MATH_INL_H_
#undef ATTEND_SIMD_MATH_INL_H_
#else
#define ATTEND_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x <= 0, as softmax needs it: within 2 ulp, exactly 1 at 0 and exactly 0 far below (-87.3 in f32), -inf included.
template <class D>
HWY_INLINE hn::Vec<D> ExpNonPositive(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto underflow = hn::Lt(x, hn::Set(d, -708.0));
    return hn::IfThenZeroElse(underflow, hn::Exp(d, hn::Max(x, hn::Set(d, -708.0))));
  } else {
    const hn::RebindToSigned<D> di;
    const auto underflow = hn::Lt(x, hn::Set(d, -87.3f));
    // n = round(x / ln 2) by adding 1.5·2^23: the integer then sits in the low bits of the float.
    const auto magic = hn::Set(d, 12582912.0f);
    const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
    const auto n = hn::Sub(shifted, magic);
    auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);  // ln 2 in two parts, so that r is exact
    r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
    // e^r on |r| <= ln 2 / 2: minimax of degree 6 with 1 + r kept exact, relative error 3.1e-9.
    auto p = hn::MulAdd(r, hn::Set(d, 1.3814466e-3f), hn::Set(d, 8.3687807e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.1668394e-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.6666520e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.9999993e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
    const auto result = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
    return hn::IfThenZeroElse(underflow, result);
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_MATH_INL_H_
