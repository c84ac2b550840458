#include <numeric>

#include "backend/cpu/attention/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention_weights.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention/attention_gradient-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Attention weights on demand: recomputes the scores of the requested rows as the forward pass does, and takes
// e^(score − lse). A requested row costs as much as in the forward pass; other rows cost nothing.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Adjacent rows of one sequence, computed as one panel.
struct RowRun {
  SequenceSpan span;
  int64_t first = 0, count = 0;  ///< range of queries of the sequence
  int64_t place = 0;             ///< index of the first row among the requested rows
};

inline std::vector<RowRun> RunsOf(const std::vector<SequenceSpan>& spans, const AttentionSelection& chosen,
                                  int64_t limit) {
  const std::vector<int64_t>& rows = chosen.rows;
  std::vector<RowRun> runs;
  for (const SequenceSpan& span : spans) {
    for (int64_t n = 0; n < std::ssize(rows); ++n) {
      const int64_t row = rows[static_cast<size_t>(n)] - span.q_begin;
      if (row < 0 || row >= span.q_end - span.q_begin) continue;
      const bool continues = !runs.empty() && runs.back().span.batch == span.batch &&
                             runs.back().span.q_begin == span.q_begin && runs.back().first + runs.back().count == row &&
                             runs.back().place + runs.back().count == n && runs.back().count < limit;
      if (continues)
        ++runs.back().count;
      else
        runs.push_back({span, row, 1, n});
    }
  }
  return runs;
}

/// rows[i][key − begin] = e^(score − lse) for the run's queries and the keys of one block.
template <int kVectors, class T>
void BlockWeights(const HeadSlice<T>& head, const RowRun& run, const T* packed, const T* lse, KeyRange keys, T* block,
                  T* rows, int64_t row_stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = kVectors * lanes, count = keys.end - keys.begin;
  if (!PanelScores<kVectors>(head, packed, run.first, run.count, keys, block, block + kKeyBlock * width)) return;
  ForEachVector<kVectors>(count, block, [&](int64_t, int n, T* s) HWY_ATTR {
    hn::StoreU(WeightExp(d, hn::Sub(hn::LoadU(d, s), hn::LoadU(d, lse + n * lanes))), d, s);
  });
  TransposeScaled(block, width, count, run.count, T{1}, rows, row_stride);
}

/// Computes all rows of a run into [run.count][keys], which is 0 before. Since lse was rounded, each row is normalised
/// again to sum to 1, as in the forward pass.
template <class T>
void RunWeights(const HeadSlice<T>& head, const RowRun& run, const T* lse, T* rows, int64_t row_stride) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int vectors = PanelVectors<T>(run.count);
  const int64_t width = vectors * lanes;
  const Scratch<T> packed(head.dim * width), block(3 * kKeyBlock * width), shift(width);
  for (int64_t lane = 0; lane < width; ++lane) {
    const T value = lse[std::min(lane, run.count - 1)];
    shift.data()[lane] = value == kHidden<T> ? -kHidden<T> : value;
  }
  PackQueries(head, run.first, run.count, width, packed.data());
  const KeyRange seen = head.visible_to_any(run.first, run.first + run.count);
  for (int64_t begin = seen.begin; begin < seen.end; begin += kKeyBlock) {
    const KeyRange keys{begin, std::min(begin + kKeyBlock, seen.end)};
    T* out = rows + begin;
    if (vectors == 1)
      BlockWeights<1>(head, run, packed.data(), shift.data(), keys, block.data(), out, row_stride);
    else if (vectors == 2)
      BlockWeights<2>(head, run, packed.data(), shift.data(), keys, block.data(), out, row_stride);
    else
      BlockWeights<3>(head, run, packed.data(), shift.data(), keys, block.data(), out, row_stride);
  }
  const Scratch<T> factors(head.dropout > 0 ? head.keys : 0);
  for (int64_t i = 0; i < run.count; ++i) {
    T* row = rows + i * row_stride;
    T *first = row + seen.begin, *last = row + std::max(seen.begin, seen.end);
    const double sum = std::accumulate(first, last, 0.0);
    if (sum > 0) std::transform(first, last, first, [&](T w) { return static_cast<T>(w / sum); });
    if (head.dropout == 0) continue;
    KeepFactors(head, run.first + i, 0, head.keys, factors.data());
    std::transform(row, row + head.keys, factors.data(), row, std::multiplies<T>());
  }
}

/// The largest `top` entries in descending order. Of equal entries, the earlier key comes first.
template <class T>
void TakeTop(const T* row, int64_t keys, int64_t top, std::vector<int64_t>& order, T* values, int64_t* places) {
  order.resize(static_cast<size_t>(keys));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + top, order.end(),
                    [&](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  for (int64_t n = 0; n < top; ++n) {
    places[n] = order[static_cast<size_t>(n)];
    values[n] = row[places[n]];
  }
}

template <class T>
void WeightsOf(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
               View places) {
  const int64_t head_count = std::ssize(chosen.heads), row_count = std::ssize(chosen.rows), keys = problem.k.shape[2];
  const std::vector<RowRun> runs = RunsOf(sequences_of(problem), chosen, PanelWidth<T>());
  parallel_for(static_cast<int64_t>(runs.size()) * head_count, [&](int64_t task) {
    const FlushTinyNumbers flush;
    const RowRun& run = runs[static_cast<size_t>(task / head_count)];
    const int64_t h = task % head_count;
    const int64_t number = chosen.heads[static_cast<size_t>(h)];
    const HeadSlice<T> head = slice_of<T>(problem, run.span, number);
    const T* sums = static_cast<const T*>(lse.data) + run.span.batch * lse.strides[0] + number * lse.strides[1] +
                    (run.span.q_begin + run.first) * lse.strides[2];
    const int64_t first = (run.span.batch * head_count + h) * row_count + run.place;
    if (chosen.top == 0) {
      T* out = static_cast<T*>(values.data) + first * keys;
      std::fill_n(out, run.count * keys, T{0});
      RunWeights(head, run, sums, out + run.span.k_begin, keys);
      return;
    }
    const Scratch<T> rows(run.count * keys);
    std::fill_n(rows.data(), run.count * keys, T{0});
    RunWeights(head, run, sums, rows.data() + run.span.k_begin, keys);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < run.count; ++i) {
      TakeTop(rows.data() + i * keys, keys, chosen.top, order, static_cast<T*>(values.data) + (first + i) * chosen.top,
              static_cast<int64_t*>(places.data) + (first + i) * chosen.top);
    }
  });
}

void AttentionWeights(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
                      View places) {
  WithFloat(problem.q.dtype, "attention_weights",
            [&](auto type) { WeightsOf<decltype(type)>(problem, lse, chosen, values, places); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionWeights);
void attention_weights(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
                       View places) {
  ATTEND_DISPATCH(problem.q.dtype, AttentionWeights)(problem, lse, chosen, values, places);
}
}  // namespace attend::cpu
#endif
