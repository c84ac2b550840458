#include <optional>

#include "backend/cpu/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/fetch_ahead.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_decode.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention_gradient-inl.h"
// clang-format on

// Attention of a few queries, as when generating word by word: 4 operations for each element of k and v read, so the
// floor is the time to read them once. Keys are cut into chunks for the threads; all query heads that share a key head
// use its block while it is in L1. Partial results are joined in order.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kDecodeChunk = 2048;
inline constexpr int64_t kScaledElements = 512;  // of scaled queries, on the stack

/// Running softmax of one query over one chunk: max, sum, then value_dim outputs.
template <class T>
struct Partial {
  T* max;
  T* sum;
  T* output;
};

/// The larger of two; a NaN wins, so that what is wrong with a score shows.
template <class T>
HWY_INLINE T Larger(T a, T b) {
  return b > a || b != b ? b : a;
}

template <class T>
inline constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));  // elements of a line of the cache

/// Asks for a row of `count` elements ahead of its use.
template <class T>
HWY_INLINE void PrefetchRow(const T* row, int64_t count) {
  for (int64_t c = 0; c < count; c += kLine<T>) hwy::Prefetch(row + c);
}

/// q · k for four keys at a time: scores[j] for keys [begin, end). Their values are fetched meanwhile: k and v are two
/// streams that each stop and start, which the hardware's own prefetching follows only after a few misses.
template <class T>
void DotKeys(const HeadSlice<T>& head, const T* query, KeyRange keys, StreamAhead ahead, T* scores) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = head.dim / lanes * lanes;
  for (int64_t j = keys.begin; j < keys.end; j += 4) {
    const int64_t count = std::min<int64_t>(4, keys.end - j);
    const T* rows[4];
    for (int64_t n = 0; n < 4; ++n) {
      const int64_t key = j + std::min(n, count - 1);
      rows[n] = head.k + key * head.k_row;
      PrefetchRow(head.v + key * head.v_row, head.value_dim);
      for (int64_t c = 0; c < head.dim; c += kLine<T>) ahead.fetch(rows[n] + c);
    }
    hn::Vec<decltype(d)> sum[4];
    HWY_UNROLL(4) for (int n = 0; n < 4; ++n) sum[n] = hn::Zero(d);
    for (int64_t c = 0; c < whole; c += lanes) {
      const auto q = hn::LoadU(d, query + c);
      HWY_UNROLL(4) for (int n = 0; n < 4; ++n) sum[n] = hn::MulAdd(q, hn::LoadU(d, rows[n] + c), sum[n]);
    }
    T totals[4];
    HWY_UNROLL(4) for (int n = 0; n < 4; ++n) totals[n] = hn::GetLane(hn::SumOfLanes(d, sum[n]));
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t c = whole; c < head.dim; ++c) totals[n] += query[c] * rows[n][c];
      scores[j - keys.begin + n] = totals[n];
    }
  }
}

/// Softcap, positions, mask and bias on the scores of query i.
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

/// output[c] += Σ_j weights[j] v[j][c], eight vectors of features at a time; a weight of 0 skips its value, whatever it
/// is.
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

/// One query against one block of keys.
template <class T>
void DecodeBlock(const HeadSlice<T>& head, const T* query, int64_t i, KeyRange keys, StreamAhead ahead,
                 const Partial<T>& state) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t count = keys.end - keys.begin;
  HWY_ALIGN T scores[kKeyBlock];
  DotKeys(head, query, keys, ahead, scores);
  FinishScores(head, i, keys, scores);
  const int64_t padded = (count + lanes - 1) / lanes * lanes;
  std::fill(scores + count, scores + padded, kHidden<T>);
  T top = *state.max;
  for (int64_t j = 0; j < count; ++j) top = Larger(top, scores[j]);
  if (top == kHidden<T>) return;
  const hn::CappedTag<T, 1> one;
  const T decay = hn::GetLane(WeightExp(one, hn::Set(one, *state.max - top)));
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < padded; j += lanes) {
    const auto e = WeightExp(d, hn::Sub(hn::Load(d, scores + j), hn::Set(d, top)));
    hn::Store(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  *state.max = top;
  *state.sum = *state.sum * decay + hn::GetLane(hn::SumOfLanes(d, sum));
  if (decay != 1) {
    for (int64_t c = 0; c < head.value_dim; ++c) state.output[c] *= decay;
  }
  if (head.dropout > 0) {
    T factors[kKeyBlock];
    KeepFactors(head, i, keys.begin, count, factors);
    for (int64_t j = 0; j < count; ++j) scores[j] *= factors[j];
  }
  AddValues(head, keys, scores, state.output);
}

/// y and lse of one query from the partial results of all chunks.
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
  parallel_for(static_cast<int64_t>(spans.size()) * kv_heads * chunks, [&](int64_t task) {
    const FlushTinyNumbers flush;
    const int64_t chunk = task % chunks, kv_head = task / chunks % kv_heads, b = task / chunks / kv_heads;
    HWY_ALIGN T few[kScaledElements];
    std::optional<Scratch<T>> many;
    if (group * queries * dim > kScaledElements) many.emplace(group * queries * dim);
    T* scaled = many ? many->data() : few;
    std::vector<HeadSlice<T>> slices;
    for (int64_t h = 0; h < group; ++h) {
      slices.push_back(slice_of<T>(problem, spans[static_cast<size_t>(b)], kv_head * group + h));
    }
    const auto slice_at = [&](int64_t r) -> const HeadSlice<T>& { return slices[static_cast<size_t>(r / queries)]; };
    const auto part_at = [&](int64_t r) {
      return partials.data() + (((b * heads + kv_head * group) * queries + r) * chunks + chunk) * step;
    };
    for (int64_t r = 0; r < group * queries; ++r) {
      const HeadSlice<T>& head = slice_at(r);
      for (int64_t c = 0; c < dim; ++c) scaled[r * dim + c] = head.scale * head.q[r % queries * head.q_row + c];
      std::fill_n(part_at(r), step, T{0});
      *part_at(r) = kHidden<T>;
    }
    const int64_t end = std::min((chunk + 1) * kDecodeChunk, slices[0].keys);
    for (int64_t begin = chunk * kDecodeChunk; begin < end; begin += kKeyBlock) {
      for (int64_t r = 0; r < group * queries; ++r) {
        const HeadSlice<T>& head = slice_at(r);
        const KeyRange seen = head.visible(r % queries);
        const KeyRange keys{std::max(begin, seen.begin), std::min(begin + kKeyBlock, seen.end)};
        if (keys.begin >= keys.end) continue;
        T* part = part_at(r);
        DecodeBlock(head, scaled + r * dim, r % queries, keys, ahead, {part, part + 1, part + 2});
      }
    }
    if (chunks > 1) return;
    for (int64_t r = 0; r < group * queries; ++r) join((b * heads + kv_head * group) * queries + r);
  });
  for (int64_t row = 0; chunks > 1 && row < rows; ++row) join(row);
}

void AttentionDecode(const AttentionProblem& problem, View y, View lse) {
  with_float(problem.q.dtype, "attention", [&](auto type) { DecodeHeads<decltype(type)>(problem, y, lse); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionDecode);
void attention_decode(const AttentionProblem& problem, View y, View lse) {
  HWY_DYNAMIC_DISPATCH(AttentionDecode)(problem, y, lse);
}
}  // namespace attend::cpu
#endif
