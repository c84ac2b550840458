#include <optional>

#include "backend/cpu/attention/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/matmul/fetch_ahead.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention_decode.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention/attention_gradient-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Attention of a few queries, as in token-by-token generation. There are only 4 operations for each element of k and v,
// so the lower bound is the time to read k and v once. The keys are cut into chunks for the threads. All query heads
// that share a key head use a block of keys while it is in L1. Partial results are joined in a fixed order.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kDecodeChunk = 2048;
inline constexpr int64_t kScaledElements = 512;   // capacity for scaled queries on the stack
inline constexpr int64_t kPieceBytes = 64 << 10;  // minimum bytes of k and v for a task of its own

/// Running softmax of one query over one chunk: max, sum, then value_dim outputs.
template <class T>
struct Partial {
  T* max;
  T* sum;
  T* output;
};

/// A query and its running softmax.
template <class T>
struct Decoded {
  const HeadSlice<T>& head;
  const T* query;  // scaled
  int64_t i;
  Partial<T> state;
};

/// The larger of two values. NaN wins, so that a NaN score propagates to the output.
template <class T>
HWY_INLINE T Larger(T a, T b) {
  return b > a || b != b ? b : a;
}

template <class T>
inline constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));  // elements in a cache line

/// Prefetches a row of `count` elements.
template <class T>
HWY_INLINE void PrefetchRow(const T* row, int64_t count) {
  for (int64_t c = 0; c < count; c += kLine<T>) hwy::Prefetch(row + c);
}

/// sums[n] = the sum of all lanes of v[n], for four vectors.
template <class D, class V, class T>
HWY_INLINE void SumFour(D d, const V* v, T* HWY_RESTRICT sums) {
  if constexpr (sizeof(T) == 4 && hn::MaxLanes(D()) >= 4) {
    const hn::Repartition<double, D> pairs;
    const auto ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
    const auto ce = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
    const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
    const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
    const auto all = hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));  // the four sums in each group of four lanes
    HWY_ALIGN T blocks[hn::MaxLanes(D())];
    hn::Store(all, d, blocks);
    const hn::FixedTag<T, 4> four;
    auto total = hn::Load(four, blocks);
    for (size_t block = 4; block < hn::MaxLanes(D()); block += 4)
      total = hn::Add(total, hn::Load(four, blocks + block));
    hn::StoreU(total, four, sums);
  } else {
    for (int n = 0; n < 4; ++n) sums[n] = hn::GetLane(hn::SumOfLanes(d, v[n]));
  }
}

/// q · k for four keys at a time and one or two queries: scores[q · kKeyBlock + j] for keys [begin, end). If `ahead` is
/// not null, also prefetches the values of these keys: k and v are two streams that stop and start, and the hardware
/// prefetcher picks up each of them only after a few misses.
template <int kQueries, class T>
HWY_INLINE void DotKeys(const HeadSlice<T>& head, const Decoded<T>* queries, KeyRange keys, const StreamAhead* ahead,
                        T* scores) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = head.dim / lanes * lanes;
  for (int64_t j = keys.begin; j < keys.end; j += 4) {
    const int64_t count = std::min<int64_t>(4, keys.end - j);
    const T* rows[4];
    for (int64_t n = 0; n < 4; ++n) {
      const int64_t key = j + std::min(n, count - 1);
      rows[n] = head.k + key * head.k_row;
      if (ahead == nullptr) continue;
      PrefetchRow(head.v + key * head.v_row, head.value_dim);
      for (int64_t c = 0; c < head.dim; c += kLine<T>) ahead->fetch(rows[n] + c);
    }
    hn::Vec<decltype(d)> sum[kQueries][4];
    HWY_UNROLL(2) for (int q = 0; q < kQueries; ++q) {
      HWY_UNROLL(4) for (int n = 0; n < 4; ++n) sum[q][n] = hn::Zero(d);
    }
    for (int64_t c = 0; c < whole; c += lanes) {
      HWY_UNROLL(4) for (int n = 0; n < 4; ++n) {
        const auto key = hn::LoadU(d, rows[n] + c);
        HWY_UNROLL(2) for (int q = 0; q < kQueries; ++q) {
          sum[q][n] = hn::MulAdd(hn::LoadU(d, queries[q].query + c), key, sum[q][n]);
        }
      }
    }
    for (int q = 0; q < kQueries; ++q) {
      T* to = scores + q * kKeyBlock + (j - keys.begin);  // has room for four: kKeyBlock is a multiple of four
      SumFour(d, sum[q], to);
      for (int64_t n = 0; n < count; ++n) {
        for (int64_t c = whole; c < head.dim; ++c) to[n] += queries[q].query[c] * rows[n][c];
      }
    }
  }
}

/// Applies softcap, ALiBi, mask and bias to the scores of query i.
template <class T>
void FinishScores(const HeadSlice<T>& head, int64_t i, KeyRange keys, T* scores) {
  const int64_t count = keys.end - keys.begin;
  if (head.softcap > 0) {
    for (int64_t j = 0; j < count; ++j) scores[j] = head.softcap * std::tanh(scores[j] / head.softcap);
  }
  if (head.slope != 0) {
    for (int64_t j = 0; j < count; ++j)
      scores[j] -= head.slope * static_cast<T>(std::abs(i + head.shift - keys.begin - j));
  }
  if (head.mask == nullptr && head.bias == nullptr) return;
  HWY_ALIGN T extra[kKeyBlock];
  ExtraRow(head, i, keys.begin, count, extra);
  for (int64_t j = 0; j < count; ++j) scores[j] = extra[j] == kHidden<T> ? extra[j] : scores[j] + extra[j];
}

/// The largest of `top` and of `count` scores, where `count` is a multiple of the vector length. NaN wins, so that a
/// NaN score propagates to the output.
template <class T>
HWY_INLINE T Largest(const T* scores, int64_t count, T top) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Set(d, top);
  auto odd = hn::IsNaN(most);
  for (int64_t j = 0; j < count; j += lanes) {
    const auto score = hn::Load(d, scores + j);
    most = hn::Max(most, score);
    odd = hn::Or(odd, hn::IsNaN(score));
  }
  return hn::AllFalse(d, odd) ? hn::GetLane(hn::MaxOfLanes(d, most)) : std::numeric_limits<T>::quiet_NaN();
}

/// Turns scores into weights and updates the running softmax. Returns false if the query sees none of the keys.
template <class T>
HWY_INLINE bool Weigh(const Decoded<T>& query, KeyRange keys, T* scores) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t count = keys.end - keys.begin, padded = (count + lanes - 1) / lanes * lanes;
  const Partial<T>& state = query.state;
  FinishScores(query.head, query.i, keys, scores);
  std::fill(scores + count, scores + padded, kHidden<T>);
  const T before = *state.max, top = Largest(scores, padded, before);
  if (top == kHidden<T>) return false;
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < padded; j += lanes) {
    const auto e = WeightExp(d, hn::Sub(hn::Load(d, scores + j), hn::Set(d, top)));
    hn::Store(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  const T total = hn::GetLane(hn::SumOfLanes(d, sum));
  *state.max = top;
  if (before == kHidden<T>) {  // the first visible keys of this query
    *state.sum = total;
  } else {
    const hn::CappedTag<T, 1> one;
    const T decay = hn::GetLane(WeightExp(one, hn::Set(one, before - top)));
    *state.sum = *state.sum * decay + total;
    for (int64_t c = 0; decay != 1 && c < query.head.value_dim; ++c) state.output[c] *= decay;
  }
  if (query.head.dropout > 0) {
    T factors[kKeyBlock];
    KeepFactors(query.head, query.i, keys.begin, count, factors);
    for (int64_t j = 0; j < count; ++j) scores[j] *= factors[j];
  }
  return true;
}

/// output[c] += Σ_j weights[j] v[j][c], eight vectors of features at a time. Skips keys with weight 0, whose values may
/// be NaN or ∞.
template <class T>
void AddValues(const HeadSlice<T>& head, KeyRange keys, const T* weights, T* output) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* v = head.v + keys.begin * head.v_row;
  const int64_t count = keys.end - keys.begin;
  int64_t c = 0;
  for (; c + 8 * lanes <= head.value_dim; c += 8 * lanes) {
    hn::Vec<decltype(d)> sum[8];
    HWY_UNROLL(8) for (int n = 0; n < 8; ++n) sum[n] = hn::LoadU(d, output + c + n * lanes);
    for (int64_t j = 0; j < count; ++j) {
      if (weights[j] == 0) continue;
      const auto w = hn::Set(d, weights[j]);
      const T* row = v + j * head.v_row + c;
      HWY_UNROLL(8) for (int n = 0; n < 8; ++n) sum[n] = hn::MulAdd(w, hn::LoadU(d, row + n * lanes), sum[n]);
    }
    HWY_UNROLL(8) for (int n = 0; n < 8; ++n) hn::StoreU(sum[n], d, output + c + n * lanes);
  }
  for (; c + lanes <= head.value_dim; c += lanes) {
    auto sum = hn::LoadU(d, output + c);
    for (int64_t j = 0; j < count; ++j) {
      if (weights[j] != 0) sum = hn::MulAdd(hn::Set(d, weights[j]), hn::LoadU(d, v + j * head.v_row + c), sum);
    }
    hn::StoreU(sum, d, output + c);
  }
  for (; c < head.value_dim; ++c) {
    for (int64_t j = 0; j < count; ++j) {
      if (weights[j] != 0) output[c] += weights[j] * v[j * head.v_row + c];
    }
  }
}

/// One or two queries against one block of keys. Prefetches the values if `ahead` is not null.
template <int kQueries, class T>
void DecodeBlock(const Decoded<T>* queries, KeyRange keys, const StreamAhead* ahead) {
  HWY_ALIGN T scores[kQueries * kKeyBlock];
  DotKeys<kQueries>(queries[0].head, queries, keys, ahead, scores);
  for (int q = 0; q < kQueries; ++q) {
    T* own = scores + q * kKeyBlock;
    if (Weigh(queries[q], keys, own)) AddValues(queries[q].head, keys, own, queries[q].state.output);
  }
}

/// Computes y and lse of one query from the partial results of all chunks.
template <class T>
void JoinPartials(const T* partials, int64_t chunks, int64_t step, int64_t width, T* y, T* lse) {
  T top = kHidden<T>, sum = 0;
  for (int64_t c = 0; c < chunks; ++c) top = Larger(top, partials[c * step]);
  std::fill_n(y, width, T{0});
  *lse = kHidden<T>;
  if (top == kHidden<T>) return;
  for (int64_t c = 0; c < chunks; ++c) {
    const T* part = partials + c * step;
    if (part[0] == kHidden<T>) continue;
    const T share = std::exp(part[0] - top);
    sum += part[1] * share;
    for (int64_t n = 0; n < width; ++n) y[n] += part[2 + n] * share;
  }
  for (int64_t n = 0; n < width; ++n) y[n] /= sum;
  *lse = top + std::log(sum);
}

template <class T>
void DecodeHeads(const AttentionProblem& problem, View y, View lse) {
  const std::vector<SequenceSpan> spans = sequences_of(problem);
  const int64_t heads = problem.q.shape[1], kv_heads = problem.k.shape[1], queries = problem.q.shape[2];
  const int64_t dim = problem.q.shape[3], width = problem.v.shape[3], group = heads / kv_heads;
  const int64_t chunks = std::max<int64_t>(1, (problem.k.shape[2] + kDecodeChunk - 1) / kDecodeChunk);
  const int64_t step = 2 + width, rows = static_cast<int64_t>(spans.size()) * heads * queries;
  const Scratch<T> partials(rows * chunks * step);
  const StreamAhead ahead = stream_ahead(problem.k.dtype, group * queries == 1);
  const auto join = [&](int64_t row) {
    const int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries;
    JoinPartials(partials.data() + row * chunks * step, chunks, step, width,
                 static_cast<T*>(y.data) + b * y.strides[0] + h * y.strides[1] + i * y.strides[2],
                 static_cast<T*>(lse.data) + b * lse.strides[0] + h * lse.strides[1] + i * lse.strides[2]);
  };
  const auto decode = [&](int64_t task, std::vector<HeadSlice<T>>& slices, T* scaled) {
    const int64_t chunk = task % chunks, kv_head = task / chunks % kv_heads, b = task / chunks / kv_heads;
    slices.clear();
    for (int64_t h = 0; h < group; ++h) {
      slices.push_back(slice_of<T>(problem, spans[static_cast<size_t>(b)], kv_head * group + h));
    }
    const auto query_at = [&](int64_t r) -> Decoded<T> {
      T* part = partials.data() + (((b * heads + kv_head * group) * queries + r) * chunks + chunk) * step;
      return {slices[static_cast<size_t>(r / queries)], scaled + r * dim, r % queries, {part, part + 1, part + 2}};
    };
    for (int64_t r = 0; r < group * queries; ++r) {
      const Decoded<T> query = query_at(r);
      const T* q = query.head.q + query.i * query.head.q_row;
      for (int64_t c = 0; c < dim; ++c) scaled[r * dim + c] = query.head.scale * q[c];
      std::fill_n(query.state.max, step, T{0});
      *query.state.max = kHidden<T>;
    }
    const int64_t end = std::min((chunk + 1) * kDecodeChunk, slices[0].keys);
    for (int64_t begin = chunk * kDecodeChunk; begin < end; begin += kKeyBlock) {
      const auto seen_by = [&](const Decoded<T>& query) -> KeyRange {
        const KeyRange seen = query.head.visible(query.i);
        return {std::max(begin, seen.begin), std::min(begin + kKeyBlock, seen.end)};
      };
      const StreamAhead* fetched = &ahead;  // the first query that sees the block prefetches it
      for (int64_t r = 0; r < group * queries;) {
        const bool is_last = r + 1 == group * queries;
        const Decoded<T> both[2]{query_at(r), query_at(is_last ? r : r + 1)};
        const KeyRange keys = seen_by(both[0]), other = seen_by(both[1]);
        const bool together = !is_last && keys.begin == other.begin && keys.end == other.end;
        r += together ? 2 : 1;
        if (keys.begin >= keys.end) continue;
        together ? DecodeBlock<2>(both, keys, fetched) : DecodeBlock<1>(both, keys, fetched);
        fetched = nullptr;
      }
    }
    if (chunks > 1) return;
    for (int64_t r = 0; r < group * queries; ++r) join((b * heads + kv_head * group) * queries + r);
  };
  const int64_t task_bytes =
      std::min(kDecodeChunk, problem.k.shape[2]) * (dim + width) * static_cast<int64_t>(sizeof(T));
  parallel_ranges(static_cast<int64_t>(spans.size()) * kv_heads * chunks,
                  kPieceBytes / std::max<int64_t>(1, task_bytes), [&](int64_t first, int64_t last) {
                    const FlushTinyNumbers flush;
                    HWY_ALIGN T few[kScaledElements];
                    std::optional<Scratch<T>> many;
                    if (group * queries * dim > kScaledElements) many.emplace(group * queries * dim);
                    std::vector<HeadSlice<T>> slices;
                    for (int64_t task = first; task < last; ++task) decode(task, slices, many ? many->data() : few);
                  });
  for (int64_t row = 0; chunks > 1 && row < rows; ++row) join(row);
}

void AttentionDecode(const AttentionProblem& problem, View y, View lse) {
  WithFloat(problem.q.dtype, "attention", [&](auto type) { DecodeHeads<decltype(type)>(problem, y, lse); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionDecode);
void attention_decode(const AttentionProblem& problem, View y, View lse) {
  ATTEND_DISPATCH(problem.q.dtype, AttentionDecode)(problem, y, lse);
}
}  // namespace attend::cpu
#endif
