// From scores and dO·V to weights and score gradients, in place. Keys are lanes, queries are rows: a block of keys stays
// packed while all queries that see it stream past, and every gradient accumulates in one fixed order.
#if defined(ATTEND_ATTENTION_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_ATTENTION_GRADIENT_INL_H_
#undef ATTEND_ATTENTION_GRADIENT_INL_H_
#else
#define ATTEND_ATTENTION_GRADIENT_INL_H_
#endif

#include "backend/cpu/attention_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What multiplies the weights of query i on keys [begin, begin + count): 0 where dropped, else 1 / (1 − p).
template <class T>
void KeepFactors(const HeadSlice<T>& head, int64_t i, int64_t begin, int64_t count, T* factors) {
  const T kept = static_cast<T>(1 / (1 - head.dropout));
  const uint32_t threshold = drop_threshold(head.dropout);
  const uint64_t base = (head.first_row + static_cast<uint64_t>(i)) * head.row_groups;
  constexpr int64_t kBlocks = 32;
  HWY_ALIGN uint32_t words[4 * kBlocks];
  for (int64_t block = begin / 4; block * 4 < begin + count; block += kBlocks) {
    const int64_t first = std::max(begin, block * 4), last = std::min(begin + count, (block + kBlocks) * 4);
    PhiloxBlocks(head.random, base + static_cast<uint64_t>(block), (last - block * 4 + 3) / 4, words);
    for (int64_t key = first; key < last; ++key) factors[key - begin] = words[key - block * 4] >= threshold ? kept : T{0};
  }
}

/// The part of a query's row that one panel of keys covers.
template <class T>
struct GradientRow {
  int64_t query = 0, key = 0;   ///< key: of lane 0
  T lse = 0, delta = 0;         ///< delta = Σ_d dO · y
  T* weights = nullptr;         ///< in: q · k scaled; out: the weights that multiplied v
  T* gradients = nullptr;       ///< in: dO · v; out: gradients of the scores before softcap
  const T* extra = nullptr;     ///< bias, or −inf where masked; null: neither
  const T* factors = nullptr;   ///< of dropout; null: none
  T* bias_gradients = nullptr;  ///< out, [width]: gradients of the scores after softcap; null: not wanted
};

/// P = e^(s − lse); dS = P ∘ (dP − delta), Dao et al. 2022 §B.2. kPlain: every lane visible, nothing but the scores.
template <bool kPlain, class T>
HWY_INLINE void SoftmaxGradient(const HeadSlice<T>& head, const GradientRow<T>& row) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lse = hn::Set(d, row.lse), delta = hn::Set(d, row.delta);
  const KeyRange seen = kPlain ? KeyRange{} : head.visible(row.query);
  HWY_UNROLL(4) for (int n = 0; n < kTileVectors; ++n) {
    auto s = hn::LoadU(d, row.weights + n * lanes);
    auto dp = hn::LoadU(d, row.gradients + n * lanes);
    if constexpr (kPlain) {
      const auto p = WeightExp(d, hn::Sub(s, lse));
      hn::StoreU(p, d, row.weights + n * lanes);
      hn::StoreU(hn::Mul(p, hn::Sub(dp, delta)), d, row.gradients + n * lanes);
    } else {
      const int64_t key = row.key + n * lanes;
      const auto place = hn::Iota(d, T{0});
      const auto first = hn::Set(d, static_cast<T>(std::clamp<int64_t>(seen.begin - key, -1, lanes)));
      const auto end = hn::Set(d, static_cast<T>(std::clamp<int64_t>(seen.end - key, -1, lanes)));
      auto visible = hn::And(hn::Ge(place, first), hn::Lt(place, end));
      auto slope = hn::Set(d, T{1});
      if (head.softcap > 0) {
        const auto t = CapTanh(d, hn::Mul(s, hn::Set(d, 1 / head.softcap)));
        s = hn::Mul(t, hn::Set(d, head.softcap));
        slope = hn::NegMulAdd(t, t, slope);
      }
      if (head.slope != 0) {
        const auto distance = hn::Abs(hn::Iota(d, static_cast<T>(key - row.query - head.shift)));
        s = hn::NegMulAdd(hn::Set(d, head.slope), distance, s);
      }
      if (row.extra != nullptr) {
        const auto extra = hn::LoadU(d, row.extra + n * lanes);
        visible = hn::And(visible, hn::Ne(extra, hn::Set(d, kHidden<T>)));
        s = hn::Add(s, extra);
      }
      const auto p = hn::IfThenElseZero(visible, WeightExp(d, hn::Sub(s, lse)));
      auto used = p;
      if (row.factors != nullptr) {
        const auto factor = hn::LoadU(d, row.factors + n * lanes);
        used = hn::Mul(p, factor);
        dp = hn::Mul(dp, factor);
      }
      const auto ds = hn::IfThenElseZero(visible, hn::Mul(p, hn::Sub(dp, delta)));
      if (row.bias_gradients != nullptr) hn::StoreU(ds, d, row.bias_gradients + n * lanes);
      hn::StoreU(used, d, row.weights + n * lanes);
      hn::StoreU(hn::IfThenElseZero(visible, hn::Mul(ds, slope)), d, row.gradients + n * lanes);
    }
  }
}

/// extra[lane] for keys [key, key + count) of query i, 0 beyond them.
template <class T>
void ExtraRow(const HeadSlice<T>& head, int64_t i, int64_t key, int64_t count, int64_t width, T* extra) {
  const T* bias = head.bias ? head.bias + i * head.bias_row + key * head.bias_key : nullptr;
  const uint8_t* mask = head.mask ? head.mask + i * head.mask_row + key * head.mask_key : nullptr;
  for (int64_t j = 0; j < count; ++j) {
    const T value = bias ? bias[j * head.bias_key] : T{0};
    extra[j] = mask != nullptr && mask[j * head.mask_key] == 0 ? kHidden<T> : value;
  }
  std::fill(extra + count, extra + width, T{0});
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_ATTENTION_GRADIENT_INL_H_
