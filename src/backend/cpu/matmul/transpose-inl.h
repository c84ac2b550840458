// Transposing a square of 32-bit words in registers. Included once for each instruction set.
#if defined(ATTEND_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_TRANSPOSE_INL_H_
#undef ATTEND_TRANSPOSE_INL_H_
#else
#define ATTEND_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Joins the same 128-bit block of each vector: v[b] = block b of all v.
template <class D, class V>
HWY_INLINE void JoinBlocks(D d, V& v0, V& v1) {
  const V low = hn::ConcatLowerLower(d, v1, v0);
  v1 = hn::ConcatUpperUpper(d, v1, v0);
  v0 = low;
}
#if HWY_TARGET <= HWY_AVX3
template <class V>
HWY_INLINE void JoinBlocks(V& v0, V& v1, V& v2, V& v3) {
  const auto even = [](V a, V b) HWY_ATTR { return V{_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)}; };
  const auto odd = [](V a, V b) HWY_ATTR { return V{_mm512_shuffle_f32x4(a.raw, b.raw, 0xdd)}; };
  const V even01 = even(v0, v1), odd01 = odd(v0, v1), even23 = even(v2, v3), odd23 = odd(v2, v3);
  v0 = even(even01, even23), v1 = even(odd01, odd23), v2 = odd(even01, even23), v3 = odd(odd01, odd23);
}
#endif

/// v[r] holds row r of a square of f32, then column r. The moves keep all bits.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TransposeSquare(D d, V (&v)[HWY_LANES(float)]) {
  constexpr int kLanes = HWY_LANES(float);
  const hn::Repartition<double, D> pairs;
  HWY_UNROLL(4) for (int r = 0; r < kLanes; r += 4) {  // four rows: 4 × 4 squares in each 128-bit block
    const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, v[r], v[r + 1]));
    const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, v[r], v[r + 1]));
    const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, v[r + 2], v[r + 3]));
    const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, v[r + 2], v[r + 3]));
    v[r] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low));
    v[r + 1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low));
    v[r + 2] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high));
    v[r + 3] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high));
  }
#if HWY_TARGET <= HWY_AVX3
  HWY_UNROLL(4) for (int c = 0; c < 4; ++c) JoinBlocks(v[c], v[c + 4], v[c + 8], v[c + 12]);
#else
  if constexpr (kLanes == 8) {
    HWY_UNROLL(4) for (int c = 0; c < 4; ++c) JoinBlocks(d, v[c], v[c + 4]);
  }
#endif
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_TRANSPOSE_INL_H_
