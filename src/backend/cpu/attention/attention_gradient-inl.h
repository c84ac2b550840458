// Turns scores and dO·V into weights and score gradients, in place. Keys are lanes, queries are rows: a block of keys
// stays packed while all queries that see it stream past, and every gradient accumulates in one fixed order.
#if defined(ATTEND_ATTENTION_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_ATTENTION_GRADIENT_INL_H_
#undef ATTEND_ATTENTION_GRADIENT_INL_H_
#else
#define ATTEND_ATTENTION_GRADIENT_INL_H_
#endif

#include "backend/cpu/attention/attention_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Dropout factors of the weights of query i on keys [begin, begin + count): 0 if dropped, else 1 / (1 − p).
template <class T>
void KeepFactors(const HeadSlice<T>& head, int64_t i, int64_t begin, int64_t count, T* factors) {
  const T kept = static_cast<T>(1 / (1 - head.dropout));
  const uint32_t threshold = drop_threshold(head.dropout);
  const uint64_t base = (head.first_row + static_cast<uint64_t>(i)) * head.row_groups;
  const int64_t first = static_cast<int64_t>(base) * kDropGroup + begin;
  ForDropBits(head.random, first, count, [&](const uint16_t* bits, int64_t at, int64_t size) {
    for (int64_t n = 0; n < size; ++n) factors[at + n] = (bits[n] & 0x7fff) >= threshold ? kept : T{0};
  });
}

/// The part of a query's row that one panel of keys covers.
template <class T>
struct GradientRow {
  int64_t query = 0, key = 0;   ///< key: the key in lane 0
  int vectors = kTileVectors;   ///< number of vectors of keys in the panel
  KeyRange seen;                ///< lanes of visible keys, counted from lane 0
  T lse = 0, delta = 0;         ///< delta = Σ_d dO · y
  T* weights = nullptr;         ///< in: scaled q · k; out: the weights that multiplied v
  T* gradients = nullptr;       ///< in: dO · v; out: gradients of the scores before softcap
  const T* extra = nullptr;     ///< bias, or −inf where masked; null: no bias and no mask
  const T* factors = nullptr;   ///< dropout factors; null: no dropout
  T* bias_gradients = nullptr;  ///< out, [width]: gradients of the scores after softcap; null: not needed
};

/// P = e^(s − lse); dS = P ∘ (dP − delta), Dao et al. 2022 §B.2. kHides: some lanes may be hidden. kOptions: softcap,
/// ALiBi, dropout or a bias gradient may be in use.
template <bool kHides, bool kOptions, class T>
HWY_INLINE void SoftmaxGradient(const HeadSlice<T>& head, const GradientRow<T>& row) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lse = hn::Set(d, row.lse), delta = hn::Set(d, row.delta);
  const auto first = hn::Set(d, static_cast<T>(row.seen.begin)), end = hn::Set(d, static_cast<T>(row.seen.end));
  for (int n = 0; n < row.vectors; ++n) {
    auto s = hn::LoadU(d, row.weights + n * lanes);
    auto dp = hn::LoadU(d, row.gradients + n * lanes);
    auto steepness = hn::Set(d, T{1});
    const auto place = hn::Iota(d, static_cast<T>(n * lanes));
    auto hidden = hn::Or(hn::Lt(place, first), hn::Ge(place, end));
    if (kOptions && head.softcap > 0) {
      const auto t = CapTanh(d, hn::Mul(s, hn::Set(d, 1 / head.softcap)));
      s = hn::Mul(t, hn::Set(d, head.softcap));
      steepness = hn::NegMulAdd(t, t, steepness);
    }
    if (kOptions && head.slope != 0) {
      const auto distance = hn::Abs(hn::Add(place, hn::Set(d, static_cast<T>(row.key - row.query - head.shift))));
      s = hn::NegMulAdd(hn::Set(d, head.slope), distance, s);
    }
    if (kHides && row.extra != nullptr) {
      const auto extra = hn::LoadU(d, row.extra + n * lanes);
      hidden = hn::Or(hidden, hn::Eq(extra, hn::Set(d, kHidden<T>)));
      s = hn::Add(s, extra);
    }
    auto p = WeightExp(d, hn::Sub(s, lse));
    if (kHides) p = hn::IfThenZeroElse(hidden, p);
    auto used = p;
    if (kOptions && row.factors != nullptr) {
      const auto factor = hn::LoadU(d, row.factors + n * lanes);
      used = hn::Mul(p, factor);
      dp = hn::Mul(dp, factor);
    }
    auto ds = hn::Mul(p, hn::Sub(dp, delta));
    if (kHides) ds = hn::IfThenZeroElse(hidden, ds);
    if (kOptions && row.bias_gradients != nullptr) hn::StoreU(ds, d, row.bias_gradients + n * lanes);
    if (kOptions) ds = hn::Mul(ds, steepness);
    if (kOptions && kHides) ds = hn::IfThenZeroElse(hidden, ds);  // the softcap slope of a hidden score may be NaN
    hn::StoreU(used, d, row.weights + n * lanes);
    hn::StoreU(ds, d, row.gradients + n * lanes);
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_ATTENTION_GRADIENT_INL_H_
