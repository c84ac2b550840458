// Products of a few rows of x with a group of other rows, whose sums are lanes: squares of the group are transposed in
// registers. Included once for each instruction set.
#if defined(ATTEND_SQUARE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SQUARE_INL_H_
#undef ATTEND_SQUARE_INL_H_
#else
#define ATTEND_SQUARE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "attend/base/dtype.h"

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

using F32 = hn::ScalableTag<float>;
inline constexpr int64_t kGroup = HWY_LANES(float);  // rows of weights that are multiplied together

/// f32 weights: a word is one element.
struct PlainRows {
  using Element = float;
  static constexpr int64_t kPerWord = 1;
  /// sum += x · word, for each lane.
  static HWY_INLINE hn::Vec<F32> AddWord(const float* x, int64_t, hn::Vec<F32> word, hn::Vec<F32> sum) {
    return hn::MulAdd(hn::Set(F32(), x[0]), word, sum);
  }
};

/// bf16 weights, the upper halves of f32: a word is two neighbours along k. They are widened, which is exact, so that
/// sums have the same bits as with f32 weights.
struct Bf16Rows {
  using Element = BFloat16;
  static constexpr int64_t kPerWord = 2;
  static HWY_INLINE hn::Vec<F32> AddWord(const float* x, int64_t present, hn::Vec<F32> word, hn::Vec<F32> sum) {
    const hn::RebindToUnsigned<F32> words;
    const auto bits = hn::BitCast(words, word);
    sum = hn::MulAdd(hn::Set(F32(), x[0]), hn::BitCast(F32(), hn::ShiftLeft<16>(bits)), sum);
    if (present < 2) return sum;
    return hn::MulAdd(hn::Set(F32(), x[1]), hn::BitCast(F32(), hn::And(bits, hn::Set(words, 0xffff0000u))), sum);
  }
};

/// kGroup rows of weights, or fewer at the end of a matrix.
template <class Element>
struct WeightGroup {
  const Element* data;
  int64_t stride, rows;
};

/// sum[i] += Σ_{p < count} x(i, p) · weights(lane, p), for a whole square of words or, if not `kWhole`, a part of it.
template <class Format, int kFew, bool kWhole>
HWY_INLINE void AddSquare(const float* x, int64_t x_stride, const WeightGroup<typename Format::Element>& weights,
                          int64_t count, hn::Vec<F32> (&sum)[kFew]) {
  const F32 d;
  hn::Vec<F32> word[kGroup];
  if constexpr (kWhole) {
    HWY_UNROLL(16) for (int64_t r = 0; r < kGroup; ++r) {
      word[r] = hn::LoadU(d, reinterpret_cast<const float*>(weights.data + r * weights.stride));
    }
    TransposeSquare(d, word);
    HWY_UNROLL(16) for (int64_t c = 0; c < kGroup; ++c) {
      HWY_UNROLL(8) for (int i = 0; i < kFew; ++i) {
        sum[i] = Format::AddWord(x + i * x_stride + c * Format::kPerWord, Format::kPerWord, word[c], sum[i]);
      }
    }
  } else {
    HWY_ALIGN float square[kGroup * kGroup] = {};
    for (int64_t r = 0; r < weights.rows; ++r) {
      std::memcpy(square + r * kGroup, weights.data + r * weights.stride,
                  static_cast<size_t>(count) * sizeof(typename Format::Element));
    }
    HWY_UNROLL(16) for (int64_t r = 0; r < kGroup; ++r) word[r] = hn::Load(d, square + r * kGroup);
    TransposeSquare(d, word);
    HWY_UNROLL(16) for (int64_t r = 0; r < kGroup; ++r) hn::Store(word[r], d, square + r * kGroup);
    for (int64_t p = 0; p < count; p += Format::kPerWord) {
      const auto one = hn::Load(d, square + p / Format::kPerWord * kGroup);
      for (int i = 0; i < kFew; ++i) sum[i] = Format::AddWord(x + i * x_stride + p, count - p, one, sum[i]);
    }
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SQUARE_INL_H_
