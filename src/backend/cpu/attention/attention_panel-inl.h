// Scores of a panel of queries against a block of keys. Queries are lanes, keys are rows: scores[key][query]. The
// maximum and the sum over keys are therefore vertical, k and v are read in place, and only q is packed, once.
#if defined(ATTEND_ATTENTION_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_ATTENTION_PANEL_INL_H_
#undef ATTEND_ATTENTION_PANEL_INL_H_
#else
#define ATTEND_ATTENTION_PANEL_INL_H_
#endif

#include <hwy/cache_control.h>

#include <limits>

#include "backend/cpu/attention/attention_slice.h"
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/simd_math-inl.h"
#include "backend/cpu/matmul/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr T kHidden = -std::numeric_limits<T>::infinity();

/// While this object lives, denormal numbers count as 0 on this thread. Weights of distant keys are often denormal, and
/// Intel cores process such numbers slowly.
class FlushTinyNumbers {
 public:
#if HWY_ARCH_X86
  FlushTinyNumbers() : before_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(before_ | 0x8040u); }
  ~FlushTinyNumbers() { __builtin_ia32_ldmxcsr(before_); }

 private:
  unsigned before_;
#endif
};

/// Number of queries in a full panel.
template <class T>
HWY_INLINE int64_t PanelWidth() {
  return kTileVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}
/// Number of vectors for `count` queries.
template <class T>
HWY_INLINE int PanelVectors(int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return static_cast<int>((count + lanes - 1) / lanes);
}

/// Loads a vector of f32, or of bf16, which is widened.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> LoadWide(const float* x) { return hn::LoadU(hn::ScalableTag<float>(), x); }
HWY_INLINE hn::Vec<hn::ScalableTag<float>> LoadWide(const BFloat16* x) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> halves;
  const hn::RebindToUnsigned<decltype(d)> words;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

/// e^x for x ≤ 0, for weights: 2^(x log2 e) with a polynomial of degree 5 (relative error 9.2e-8; f32 itself has 6e-8).
/// Below 2^-127 the exponent underflows and the result is exactly 0. NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> WeightExp(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return ExpNonPositive(d, x);
  } else {
    const hn::RebindToSigned<D> di;
    const auto magic = hn::Set(d, 12582912.0f);
    const auto t = hn::Max(hn::Set(d, -127.0f), hn::Mul(x, hn::Set(d, 1.44269504f)));
    const auto shifted = hn::Add(t, magic);
    const auto r = hn::Sub(t, hn::Sub(shifted, magic));
    auto p = hn::MulAdd(r, hn::Set(d, 1.32645891e-3f), hn::Set(d, 9.67161914e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 5.55073504e-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 2.40222405e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 6.93146976e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  }
}

/// Two results over different keys become one: value = before · shares.before + more · shares.more, relative to a
/// common maximum. A side that has seen no key has a maximum of −inf and gets a share of 0.
template <class D>
struct Shares {
  hn::Vec<D> max, before, more;
  HWY_INLINE hn::Vec<D> joined(hn::Vec<D> value, hn::Vec<D> other) const {
    return hn::MulAdd(other, more, hn::Mul(value, before));
  }
};
template <class D>
HWY_INLINE Shares<D> SharesOf(D d, hn::Vec<D> before, hn::Vec<D> more) {
  const auto max = hn::Max(before, more);
  const auto shift = hn::IfThenElse(hn::Eq(max, hn::Set(d, kHidden<hn::TFromD<D>>)), hn::Zero(d), max);
  return {max, WeightExp(d, hn::Sub(before, shift)), WeightExp(d, hn::Sub(more, shift))};
}

/// tanh computed from e^(-2|x|): sign and limits are exact.
template <class D>
HWY_INLINE hn::Vec<D> CapTanh(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto one = hn::Set(d, T{1});
  const auto e = ExpNonPositive(d, hn::Mul(hn::Set(d, T{-2}), hn::Abs(x)));
  return hn::CopySignToAbs(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
}

/// Whether every element is finite: x − x is 0 for a finite x and NaN otherwise, and a sum keeps any NaN.
template <class T>
bool AllFinite(const T* rows, int64_t row_stride, int64_t count, int64_t cols) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d), more = hn::Zero(d);
  T rest = 0;
  for (int64_t r = 0; r < count; ++r) {
    const T* row = rows + r * row_stride;
    int64_t c = 0;
    for (; c + 2 * lanes <= cols; c += 2 * lanes) {
      const auto x = hn::LoadU(d, row + c), y = hn::LoadU(d, row + c + lanes);
      sums = hn::Add(sums, hn::Sub(x, x));
      more = hn::Add(more, hn::Sub(y, y));
    }
    for (; c < cols; ++c) rest += row[c] - row[c];
  }
  return rest == 0 && hn::AllTrue(d, hn::Eq(hn::Add(sums, more), hn::Zero(d)));
}

/// Queries [first, first + count) of a head as columns: packed[dim][width], scaled, zero for columns beyond count.
template <class T>
void PackQueries(const HeadSlice<T>& head, int64_t first, int64_t count, int64_t width, T* packed) {
  if (count < width) {
    for (int64_t c = 0; c < head.dim; ++c) std::fill(packed + c * width + count, packed + (c + 1) * width, T{0});
  }
  TransposeScaled(head.q + first * head.q_row, head.q_row, count, head.dim, head.scale, packed, width);
}

/// Calls f(row, n, vector address) for every vector of a block of scores.
template <int kVectors, class T, class F>
HWY_INLINE void ForEachVector(int64_t rows, T* scores, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t row = 0; row < rows; ++row) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) f(row, n, scores + (row * kVectors + n) * lanes);
  }
}

/// row[j] = bias of query i on keys [key, key + count), or −inf where the mask hides the key.
template <class T>
void ExtraRow(const HeadSlice<T>& head, int64_t i, int64_t key, int64_t count, T* HWY_RESTRICT row) {
  const T* bias = head.bias ? head.bias + i * head.bias_row + key * head.bias_key : nullptr;
  const uint8_t* mask = head.mask ? head.mask + i * head.mask_row + key * head.mask_key : nullptr;
  int64_t j = 0;
  if constexpr (sizeof(T) == 4) {
    const hn::ScalableTag<T> d;
    const hn::Rebind<uint8_t, decltype(d)> bytes;
    const hn::RebindToSigned<decltype(d)> di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const bool dense = (!bias || head.bias_key == 1) && (!mask || head.mask_key == 1);
    for (; dense && j + lanes <= count; j += lanes) {
      auto value = bias ? hn::LoadU(d, bias + j) : hn::Zero(d);
      if (mask) {
        const auto seen = hn::PromoteTo(di, hn::LoadU(bytes, mask + j));
        value = hn::IfThenElse(hn::RebindMask(d, hn::Eq(seen, hn::Zero(di))), hn::Set(d, kHidden<T>), value);
      }
      hn::StoreU(value, d, row + j);
    }
  }
  for (; j < count; ++j) {
    const T value = bias ? bias[j * head.bias_key] : T{0};
    row[j] = mask && mask[j * head.mask_key] == 0 ? kHidden<T> : value;
  }
}

/// Effect of mask and bias on a block.
enum class Extra { nothing, some, hides_all };

/// Whether the mask hides no, some or all pairs of these queries and keys.
template <class T>
Extra MaskedPart(const HeadSlice<T>& head, int64_t first, int64_t count, KeyRange keys) {
  if (head.mask == nullptr) return Extra::nothing;
  bool any = false, all = true;
  for (int64_t i = 0; i < (head.mask_row == 0 ? 1 : count); ++i) {
    const uint8_t* mask = head.mask + (first + i) * head.mask_row + keys.begin * head.mask_key;
    uint8_t largest = 0, smallest = 255;
    for (int64_t j = 0; j < keys.end - keys.begin; ++j) {
      const uint8_t value = mask[j * head.mask_key];
      largest = std::max(largest, value);
      smallest = std::min(smallest, value);
    }
    any = any || largest != 0;
    all = all && smallest != 0;
  }
  return all ? Extra::nothing : any ? Extra::some : Extra::hides_all;
}

/// extra[key][query] = bias, or −inf where the mask hides the key. `rows` is scratch memory of the same size.
template <int kVectors, class T>
Extra BuildExtra(const HeadSlice<T>& head, int64_t first, int64_t count, KeyRange keys, T* extra, T* rows) {
  if (head.mask == nullptr && head.bias == nullptr) return Extra::nothing;
  const Extra masked = MaskedPart(head, first, count, keys);
  if (masked == Extra::hides_all || (masked == Extra::nothing && head.bias == nullptr)) return masked;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t key_count = keys.end - keys.begin;
  if (head.bias != nullptr && head.bias_key == 1) {  // prefetch the next block of every row: 24 streams would each miss
    for (int64_t i = 0; i < count; ++i) {
      const T* next = head.bias + (first + i) * head.bias_row + std::min(keys.end + kKeyBlock, head.keys) - 1;
      for (int64_t line = 0; line < kKeyBlock; line += 16) hwy::Prefetch(next - line);
    }
  }
  if (masked == Extra::nothing && head.bias_key == 1) {
    TransposeScaled(head.bias + first * head.bias_row + keys.begin, head.bias_row, count, key_count, T{1}, extra,
                    width);
    return Extra::some;
  }
  for (int64_t i = 0; i < count; ++i) ExtraRow(head, first + i, keys.begin, key_count, rows + i * kKeyBlock);
  TransposeScaled(rows, kKeyBlock, count, key_count, T{1}, extra, width);
  return Extra::some;
}

/// Sets the scores of keys that a query of the panel cannot see by position to −inf.
template <int kVectors, class T>
void HideByPosition(const HeadSlice<T>& head, int64_t first, int64_t count, KeyRange keys, T* scores) {
  const KeyRange all = head.visible_to_all(first, first + count);
  if (keys.begin >= all.begin && keys.end <= all.end) return;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T begins[kTileVectors * hn::MaxLanes(hn::ScalableTag<T>())],
      ends[kTileVectors * hn::MaxLanes(hn::ScalableTag<T>())];
  for (int64_t lane = 0; lane < kVectors * lanes; ++lane) {  // relative to the block, hence exact in floating point
    const KeyRange range = head.visible(first + std::min(lane, count - 1));
    begins[lane] = static_cast<T>(std::clamp<int64_t>(range.begin - keys.begin, -1, kKeyBlock + 1));
    ends[lane] = static_cast<T>(std::clamp<int64_t>(range.end - keys.begin, -1, kKeyBlock + 1));
  }
  for (int64_t row = 0; row < keys.end - keys.begin; ++row) {
    const int64_t key = keys.begin + row;
    if (key >= all.begin && key < all.end) continue;
    const auto place = hn::Set(d, static_cast<T>(row));
    for (int n = 0; n < kVectors; ++n) {
      T* s = scores + (row * kVectors + n) * lanes;
      const auto seen =
          hn::And(hn::Le(hn::Load(d, begins + n * lanes), place), hn::Lt(place, hn::Load(d, ends + n * lanes)));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, s), hn::Set(d, kHidden<T>)), d, s);
    }
  }
}

/// Adds −slope · |position − key| to every score.
template <int kVectors, class T>
void AddAlibi(const HeadSlice<T>& head, int64_t first, KeyRange keys, T* scores) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto slope = hn::Set(d, head.slope);
  const int64_t gap = first + head.shift - keys.begin;  // distance between lane 0 and row 0
  ForEachVector<kVectors>(keys.end - keys.begin, scores, [&](int64_t row, int n, T* s) HWY_ATTR {
    const auto distance = hn::Abs(hn::Iota(d, static_cast<T>(gap - row + n * lanes)));
    hn::StoreU(hn::NegMulAdd(slope, distance, hn::LoadU(d, s)), d, s);
  });
}

/// Computes the final scores of a panel against `keys`: −inf where a query may not attend. Returns false, without
/// writing scores, if no query of the panel may attend to any of these keys. `extra` is scratch memory, twice as large
/// as scores.
template <int kVectors, class T>
HWY_INLINE bool PanelScores(const HeadSlice<T>& head, const T* packed, int64_t first, int64_t count, KeyRange keys,
                            T* scores, T* extra) {
  const hn::ScalableTag<T> d;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(d));
  const int64_t rows = keys.end - keys.begin;
  const Extra kind = BuildExtra<kVectors>(head, first, count, keys, extra, extra + kKeyBlock * width);
  if (kind == Extra::hides_all) return false;
  head.for_runs(keys, [&](KeyRange run) {
    MultiplyRows<kVectors, T>({.in = {head.key_at(run.begin), head.k_row, head.k_feature, packed, width},
                               .depth = head.dim,
                               .c = scores + (run.begin - keys.begin) * width,
                               .c_row = width},
                              run.end - run.begin);
  });
  if (head.softcap > 0) {
    const auto cap = hn::Set(d, head.softcap), inverse = hn::Set(d, 1 / head.softcap);
    ForEachVector<kVectors>(rows, scores, [&](int64_t, int, T* s) HWY_ATTR {
      hn::StoreU(hn::Mul(cap, CapTanh(d, hn::Mul(hn::LoadU(d, s), inverse))), d, s);
    });
  }
  if (head.slope != 0) AddAlibi<kVectors>(head, first, keys, scores);
  if (kind == Extra::some) {
    const auto hidden = hn::Set(d, kHidden<T>);
    ForEachVector<kVectors>(rows, scores, [&](int64_t row, int n, T* s) HWY_ATTR {
      const auto e = hn::LoadU(d, extra + row * width + n * static_cast<int64_t>(hn::Lanes(d)));
      hn::StoreU(hn::IfThenElse(hn::Eq(e, hidden), e, hn::Add(hn::LoadU(d, s), e)), d, s);
    });
  }
  HideByPosition<kVectors>(head, first, count, keys, scores);
  return true;
}

/// Applies dropout to a block of weights[key][query]: dropped weights become 0, the others are divided by 1 − p.
template <int kVectors, class T>
void DropWeights(const HeadSlice<T>& head, int64_t first, KeyRange keys, T* weights) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<T>(1 / (1 - head.dropout)));
  const uint32_t threshold = drop_threshold(head.dropout);
  for (int n = 0; n < kVectors; ++n) {
    const uint64_t row = head.first_row + static_cast<uint64_t>(first + n * lanes);
    const LaneCounters<decltype(d)> counters(row * head.row_groups, head.row_groups);
    for (int64_t group = keys.begin / kDropGroup; group * kDropGroup < keys.end; ++group) {
      const auto words = counters.words(head.random, static_cast<uint64_t>(group));
      for (int64_t element = 0; element < kDropGroup; ++element) {
        const int64_t key = group * kDropGroup + element;
        if (key < keys.begin || key >= keys.end) continue;
        T* w = weights + ((key - keys.begin) * kVectors + n) * lanes;
        const auto word = words[static_cast<size_t>(element / 2)];
        const auto kept = KeepMask(d, element % 2 == 0 ? word : hn::ShiftRight<16>(word), threshold);
        hn::StoreU(hn::IfThenElseZero(kept, hn::Mul(scale, hn::LoadU(d, w))), d, w);
      }
    }
  }
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_ATTENTION_PANEL_INL_H_
