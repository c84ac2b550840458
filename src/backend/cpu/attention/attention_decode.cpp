#include <cmath>
#include <optional>
#include <span>

#include "attend/base/threads.h"
#include "backend/cpu/attention/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul/fetch_ahead.h"
#include "backend/cpu/memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention_decode.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention/attention_gradient-inl.h"
#include "backend/cpu/matmul/square-inl.h"
// clang-format on

// Attention of a few queries in f32, as in token-by-token generation. There are only 4 operations for each element of k
// and v, so the lower bound is the time to read k and v once. In pages they may be bf16: half of the bytes, widened in
// registers. Keys are lanes: pages have them so, and squares of other keys are transposed in registers. Every sum has
// the order of the forward pass for many queries, hence the same bits. The keys are cut into chunks for the threads.
// All query heads that share a key head use a block of keys while it is in L1.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kScaledElements = 512;   // capacity for scaled queries on the stack
inline constexpr int64_t kPieceBytes = 64 << 10;  // minimum bytes of k and v for a task of its own
inline constexpr int kQueriesAtOnce = 4;

/// Running softmax of one query over one chunk.
struct Partial {
  float* max;
  float* sum;
  float* output;  // [value_dim]
};

/// A query and its running softmax.
struct Decoded {
  const HeadSlice<float>* head;
  const float* query;  // scaled
  int64_t i;
  Partial state;
};

/// Prefetches a row of `count` elements.
template <class Stored>
HWY_INLINE void PrefetchRow(const Stored* row, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Stored);
  for (int64_t c = 0; c < count; c += kLine) hwy::Prefetch(row + c);
}

/// scores[q · kKeyBlock + j − begin] = q · k for kQueries queries, `dim` apart, and the keys of a block outside of
/// pages. Each score is one chain of FMAs along the head size. Scores of a last, partial group of lanes are undefined
/// beyond its keys. If `ahead` is not null, also prefetches the values of these keys: k and v are two streams that stop
/// and start, and the hardware prefetcher picks up each of them only after a few misses.
template <int kQueries>
void RowScores(const HeadSlice<float>& head, const float* queries, KeyRange keys, const StreamAhead* ahead,
               float* scores) {
  const F32 d;
  for (int64_t j = keys.begin; j < keys.end; j += kGroup) {
    const int64_t rows = HWY_MIN(kGroup, head.keys - j);
    const float *first = head.key_at(j), *values = head.value_row(j);
    for (int64_t n = 0; n < rows && ahead != nullptr; ++n) {
      PrefetchRow(values + n * head.v_row, head.value_dim);
      for (int64_t c = 0; c < head.dim; c += 16) ahead->fetch(first + n * head.k_row + c);
    }
    hn::Vec<F32> sum[kQueries];
    HWY_UNROLL(4) for (int q = 0; q < kQueries; ++q) sum[q] = hn::Zero(d);
    for (int64_t c = 0; c < head.dim; c += kGroup) {
      const WeightGroup<float> square{first + c, head.k_row, rows};
      if (rows == kGroup && c + kGroup <= head.dim) {
        AddSquare<PlainRows, kQueries, true>(queries + c, head.dim, square, kGroup, sum);
      } else {
        AddSquare<PlainRows, kQueries, false>(queries + c, head.dim, square, HWY_MIN(kGroup, head.dim - c), sum);
      }
    }
    HWY_UNROLL(4) for (int q = 0; q < kQueries; ++q) hn::Store(sum[q], d, scores + q * kKeyBlock + (j - keys.begin));
  }
}

/// The same for kGroups groups of keys in pages, from key j on, where the keys of a feature lie side by side. With one
/// query, four groups keep the multipliers busy. If `ahead`, also prefetches the values of these keys, one line of each
/// page at a time; see AddVectors.
template <class Stored, int kQueries, int kGroups>
HWY_INLINE void GroupScores(const HeadSlice<float>& head, const float* queries, int64_t j, bool ahead, float* scores) {
  constexpr int kGroupsOfPage = kPageKeys / kGroup;
  constexpr int64_t kFeaturesOfLine = HWY_MAX(1, 64 / (kPageKeys * sizeof(Stored)));
  const F32 d;
  const Stored *keys[kGroups], *values[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    const int64_t key = j + g * kGroup;
    keys[g] = head.key_at<Stored>(key);
    values[g] = head.value_row<Stored>(key);
  }
  hn::Vec<F32> sum[kGroups][kQueries];
  for (auto& of_group : sum) {
    for (auto& one : of_group) one = hn::Zero(d);
  }
  for (int64_t c = 0; c < head.dim; ++c) {
    if (ahead && c % kFeaturesOfLine == 0) {
      for (int g = 0; g < kGroups; g += kGroupsOfPage) {
        hwy::Prefetch(values[g] + c * kPageKeys);
      }
    }
    HWY_UNROLL(4) for (int g = 0; g < kGroups; ++g) {
      const auto feature = LoadWide(keys[g] + c * kPageKeys);
      HWY_UNROLL(4) for (int q = 0; q < kQueries; ++q) {
        sum[g][q] = hn::MulAdd(hn::Set(d, queries[q * head.dim + c]), feature, sum[g][q]);
      }
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    for (int q = 0; q < kQueries; ++q) hn::Store(sum[g][q], d, scores + q * kKeyBlock + g * kGroup);
  }
}

template <class Stored, int kQueries>
void PageScores(const HeadSlice<float>& head, const float* queries, KeyRange keys, bool ahead, float* scores) {
  constexpr int kGroups = kQueries == 1 ? 4 : kQueries == 2 ? 2 : 1;
  int64_t j = keys.begin;
  for (; j + (kGroups - 1) * kGroup < keys.end; j += kGroups * kGroup) {
    GroupScores<Stored, kQueries, kGroups>(head, queries, j, ahead, scores + (j - keys.begin));
  }
  for (; j < keys.end; j += kGroup) {
    GroupScores<Stored, kQueries, 1>(head, queries, j, ahead, scores + (j - keys.begin));
  }
}

/// Applies softcap, ALiBi, mask and bias to the scores of query i, as PanelScores does. Hides the keys that the query
/// does not see by position, and pads up to whole vectors. `keys` are those of the scores.
void FinishScores(const HeadSlice<float>& head, int64_t i, KeyRange keys, float* scores) {
  const F32 d;
  const int64_t count = keys.end - keys.begin, padded = (count + kGroup - 1) / kGroup * kGroup;
  if (head.softcap > 0) {
    const auto cap = hn::Set(d, head.softcap), inverse = hn::Set(d, 1 / head.softcap);
    for (int64_t j = 0; j < padded; j += kGroup) {
      hn::Store(hn::Mul(cap, CapTanh(d, hn::Mul(hn::Load(d, scores + j), inverse))), d, scores + j);
    }
  }
  if (head.slope != 0) {
    const auto slope = hn::Set(d, head.slope);
    for (int64_t j = 0; j < padded; j += kGroup) {
      const auto distance = hn::Abs(hn::Iota(d, static_cast<float>(keys.begin + j - i - head.shift)));
      hn::Store(hn::NegMulAdd(slope, distance, hn::Load(d, scores + j)), d, scores + j);
    }
  }
  if (head.mask != nullptr || head.bias != nullptr) {
    HWY_ALIGN float extra[kKeyBlock];
    ExtraRow(head, i, keys.begin, count, extra);
    for (int64_t j = 0; j < count; ++j) scores[j] = extra[j] == kHidden<float> ? extra[j] : scores[j] + extra[j];
  }
  const KeyRange seen = head.visible(i);
  const int64_t first = std::clamp<int64_t>(seen.begin - keys.begin, 0, padded);
  const int64_t last = std::clamp<int64_t>(seen.end - keys.begin, first, count);
  std::fill(scores, scores + first, kHidden<float>);
  std::fill(scores + last, scores + padded, kHidden<float>);
}

/// Turns scores into weights and updates the running softmax. Returns false if the query sees none of the keys.
HWY_INLINE bool Weigh(const Decoded& query, KeyRange keys, float* scores) {
  const F32 d;
  const int64_t count = keys.end - keys.begin, padded = (count + kGroup - 1) / kGroup * kGroup;
  const Partial& state = query.state;
  FinishScores(*query.head, query.i, keys, scores);
  auto most = hn::Set(d, *state.max);
  for (int64_t j = 0; j < padded; j += kGroup) most = hn::Max(most, hn::Load(d, scores + j));
  const auto top = hn::MaxOfLanes(d, most);
  const float before = *state.max, after = hn::GetLane(top);
  if (after == kHidden<float>) {
    const auto is_number = [](float score) { return score == score; };
    if (std::all_of(scores, scores + padded, is_number)) return false;
  }
  for (int64_t j = 0; j < padded; j += kGroup) {
    hn::Store(WeightExp(d, hn::Sub(hn::Load(d, scores + j), top)), d, scores + j);
  }
  *state.max = after;
  if (before != after) {
    const float decay = hn::GetLane(WeightExp(d, hn::Sub(hn::Set(d, before), top)));
    *state.sum *= decay;
    for (int64_t c = 0; c < query.head->value_dim; ++c) state.output[c] *= decay;
  }
  float sum = *state.sum;
  for (int64_t j = 0; j < padded; ++j) sum += scores[j];  // in order of keys; overlaps with the values' products
  *state.sum = sum;
  if (query.head->dropout > 0) {
    float factors[kKeyBlock];
    KeepFactors(*query.head, query.i, keys.begin, count, factors);
    for (int64_t j = 0; j < count; ++j) scores[j] *= factors[j];
  }
  return true;
}

/// The keys of pages that are read a block after those of key j, or of the next head after the last block.
template <class Stored>
HWY_INLINE const Stored* KeysAhead(const HeadSlice<float>& head, int64_t j) {
  const int64_t first = j / kPageKeys * kPageKeys, after = first + kKeyBlock;
  return after < head.keys ? head.key_at<Stored>(after) : head.key_at<Stored>(first) + kPageKeys * head.dim;
}

/// output[c] += Σ_j weights[j] v[j][c] for kVectors vectors of features. Skips keys with weight 0, whose values may be
/// NaN or ∞. If `ahead`, prefetches the keys of later pages, a row for each row of values: as much as is read, because
/// a core drops prefetches while too many are in flight.
template <class Stored, int kVectors>
HWY_INLINE void AddVectors(const HeadSlice<float>& head, KeyRange keys, const float* weights, int64_t c, bool ahead,
                           float* output) {
  const F32 d;
  hn::Vec<F32> sum[kVectors];
  HWY_UNROLL(8) for (int n = 0; n < kVectors; ++n) sum[n] = hn::LoadU(d, output + c + n * kGroup);
  for (int64_t begin = keys.begin, end; begin < keys.end; begin = end) {  // no lambda: the sums stay in registers
    end = head.run_end(begin, keys.end);
    const Stored* row = head.value_row<Stored>(begin) + c;
    const Stored* later = ahead ? KeysAhead<Stored>(head, begin) : nullptr;
    for (int64_t j = begin; j < end; ++j, row += head.v_row) {
      if (ahead) PrefetchRow(later + (j - begin) * head.dim, head.dim);
      const float weight = weights[j - keys.begin];
      if (weight == 0) continue;
      const auto w = hn::Set(d, weight);
      HWY_UNROLL(8) for (int n = 0; n < kVectors; ++n) sum[n] = hn::MulAdd(w, LoadWide(row + n * kGroup), sum[n]);
    }
  }
  HWY_UNROLL(8) for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[n], d, output + c + n * kGroup);
}

/// All features of the output. `ahead`: as in AddVectors.
template <class Stored>
void AddValues(const HeadSlice<float>& head, KeyRange keys, const float* weights, bool ahead, float* output) {
  int64_t c = 0;
  const auto add = [&](auto vectors) HWY_ATTR {
    constexpr int64_t kWidth = decltype(vectors)::value * kGroup;
    for (; c + kWidth <= head.value_dim; c += kWidth) {
      AddVectors<Stored, decltype(vectors)::value>(head, keys, weights, c, ahead && c == 0, output);
    }
  };
  add(std::integral_constant<int, 8>());
  add(std::integral_constant<int, 4>());
  add(std::integral_constant<int, 1>());
  for (; c < head.value_dim; ++c) {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float weight = weights[j - keys.begin];
      if (weight != 0) output[c] = AddProduct(weight, Widened(head.value_row<Stored>(j)[c]), output[c]);
    }
  }
}

/// Up to kQueriesAtOnce queries of one key head against one block of keys.
template <bool kPages, class Stored, int kQueries>
void DecodeBlock(int64_t count, const Decoded* queries, KeyRange keys, const StreamAhead* ahead) {
  if constexpr (kQueries > 1) {
    if (count < kQueries) return DecodeBlock<kPages, Stored, kQueries - 1>(count, queries, keys, ahead);
  }
  HWY_ALIGN float scores[kQueries * kKeyBlock];
  const HeadSlice<float>& head = *queries[0].head;
  if constexpr (kPages) {
    PageScores<Stored, kQueries>(head, queries[0].query, keys, ahead != nullptr, scores);
  } else {
    RowScores<kQueries>(head, queries[0].query, keys, ahead, scores);
  }
  for (int q = 0; q < kQueries; ++q) {
    float* own = scores + q * kKeyBlock;
    if (!Weigh(queries[q], keys, own)) continue;
    AddValues<Stored>(*queries[q].head, keys, own, kPages && q == 0 && ahead != nullptr, queries[q].state.output);
  }
}

/// Computes y and lse of one query from the partial results of all chunks, which are joined in order.
void FinishQuery(float* partials, int64_t chunks, int64_t step, int64_t width, float* y, float* lse) {
  const F32 d;
  float* total = partials;
  for (int64_t c = 1; c < chunks; ++c) {
    const float* part = partials + c * step;
    const auto shares = SharesOf(d, hn::Set(d, total[0]), hn::Set(d, part[0]));
    total[0] = hn::GetLane(shares.max);
    for (int64_t n = 1; n < step; ++n) {
      total[n] = hn::GetLane(shares.joined(hn::Set(d, total[n]), hn::Set(d, part[n])));
    }
  }
  const float inverse = total[1] == 0 ? 0 : 1 / total[1];
  for (int64_t n = 0; n < width; ++n) y[n] = total[2 + n] * inverse;
  *lse = total[0] + std::log(total[1]);
}

/// Keys and values of type `Stored`, in pages or not.
template <bool kPages, class Stored>
class DecodeHeads {
 public:
  DecodeHeads(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse)
      : problem_(problem),
        y_(y),
        lse_(lse),
        spans_(spans),
        heads_(problem.q.shape[1]),
        kv_heads_(problem.k.shape[1]),
        queries_(std::ranges::max(spans, {}, &SequenceSpan::queries).queries()),
        dim_(problem.q.shape[3]),
        width_(problem.v.shape[3]),
        group_(heads_ / kv_heads_),
        chunks_(std::max<int64_t>(1, (problem.k.shape[2] + kKeyChunk - 1) / kKeyChunk)),
        step_(2 + width_),
        partials_(std::ssize(spans_) * heads_ * queries_ * chunks_ * step_),
        ahead_(stream_ahead(DType::f32, group_ * queries_ == 1)) {}

  void Run() const {
    const int64_t task_bytes =
        std::min(kKeyChunk, problem_.k.shape[2]) * (dim_ + width_) * static_cast<int64_t>(size_of(problem_.k.dtype));
    parallel_ranges(std::ssize(spans_) * kv_heads_ * chunks_, kPieceBytes / std::max<int64_t>(1, task_bytes),
                    [&](int64_t first, int64_t last) {
                      const FlushTinyNumbers flush;
                      HWY_ALIGN float few[kScaledElements];
                      std::optional<Scratch<float>> many;
                      if (group_ * queries_ * dim_ > kScaledElements) many.emplace(group_ * queries_ * dim_);
                      std::vector<HeadSlice<float>> slices;
                      for (int64_t task = first; task < last; ++task) Decode(task, slices, many ? many->data() : few);
                    });
    const FlushTinyNumbers flush;
    for (int64_t s = 0; chunks_ > 1 && s < std::ssize(spans_); ++s) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t i = 0; i < SpanAt(s).queries(); ++i) Finish(s, h, i);
      }
    }
  }

 private:
  const SequenceSpan& SpanAt(int64_t s) const { return spans_[static_cast<size_t>(s)]; }
  /// Query i of head h of span s.
  float* PartialOf(int64_t s, int64_t h, int64_t i, int64_t chunk) const {
    return partials_.data() + (((s * heads_ + h) * queries_ + i) * chunks_ + chunk) * step_;
  }

  void Finish(int64_t s, int64_t h, int64_t i) const {
    const auto place = [&](const View& view) {
      const SequenceSpan& span = SpanAt(s);
      return static_cast<float*>(view.data) + span.batch * view.strides[0] + h * view.strides[1] +
             (span.q_begin + i) * view.strides[2];
    };
    FinishQuery(PartialOf(s, h, i, 0), chunks_, step_, width_, place(y_), place(lse_));
  }

  /// One chunk of the keys of one key head of one sequence.
  void Decode(int64_t task, std::vector<HeadSlice<float>>& slices, float* scaled) const {
    const int64_t chunk = task % chunks_, kv_head = task / chunks_ % kv_heads_, s = task / chunks_ / kv_heads_;
    const int64_t queries = SpanAt(s).queries(), first_head = kv_head * group_, count = group_ * queries;
    if (queries == 0) return;
    slices.clear();
    for (int64_t h = 0; h < group_; ++h) slices.push_back(slice_of<float>(problem_, SpanAt(s), first_head + h));
    const auto query_at = [&](int64_t r) -> Decoded {
      float* part = PartialOf(s, first_head + r / queries, r % queries, chunk);
      return {&slices[static_cast<size_t>(r / queries)], scaled + r * dim_, r % queries, {part, part + 1, part + 2}};
    };
    for (int64_t r = 0; r < count; ++r) {
      const Decoded query = query_at(r);
      const float* q = query.head->q + query.i * query.head->q_row;
      for (int64_t c = 0; c < dim_; ++c) scaled[r * dim_ + c] = query.head->scale * q[c];
      std::fill_n(query.state.max, step_, 0.0f);
      *query.state.max = kHidden<float>;
    }
    const KeyRange seen = slices[0].visible_to_any(0, queries);
    const int64_t begin = std::max(chunk * kKeyChunk, block_begin(seen.begin));
    const int64_t end = std::min((chunk + 1) * kKeyChunk, seen.end);
    for (int64_t block = begin; block < end; block += kKeyBlock) {
      const KeyRange keys{std::max(block, seen.begin / kGroup * kGroup), std::min(block + kKeyBlock, end)};
      for (int64_t r = 0; r < count; r += kQueriesAtOnce) {
        Decoded some[kQueriesAtOnce];
        const int64_t taken = std::min<int64_t>(kQueriesAtOnce, count - r);
        for (int64_t n = 0; n < taken; ++n) some[n] = query_at(r + n);
        DecodeBlock<kPages, Stored, kQueriesAtOnce>(taken, some, keys, r == 0 ? &ahead_ : nullptr);
      }
    }
    if (chunks_ > 1) return;
    for (int64_t r = 0; r < count; ++r) Finish(s, first_head + r / queries, r % queries);
  }

  const AttentionProblem& problem_;
  const View y_, lse_;
  const std::span<const SequenceSpan> spans_;
  const int64_t heads_, kv_heads_, queries_, dim_, width_, group_, chunks_, step_;
  const Scratch<float> partials_;  // for each query and chunk: max, sum, then the outputs
  const StreamAhead ahead_;
};

void AttentionDecode(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse) {
  if (!problem.pages) return DecodeHeads<false, float>(problem, spans, y, lse).Run();
  if (problem.k.dtype == DType::bf16) return DecodeHeads<true, BFloat16>(problem, spans, y, lse).Run();
  DecodeHeads<true, float>(problem, spans, y, lse).Run();
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionDecode);
void attention_decode(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse) {
  HWY_DYNAMIC_DISPATCH(AttentionDecode)(problem, spans, y, lse);
}
}  // namespace attend::cpu
#endif
