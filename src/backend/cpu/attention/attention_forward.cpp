#include <span>

#include "backend/cpu/attention/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention_forward.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention/attention_panel-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Forward pass (Dao et al. 2022, with queries in lanes): for each block of keys, every panel of a task updates its
// running maximum, sum and output. For one panel and 64 keys at head size 64, the two products take 12,288 FMA cycles
// on AVX2 and the softmax between them about 1,200. This bounds the kernel at 0.90 of peak. A task widens each block of
// bf16 pages once, for all of its panels.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Panels that go through the keys together, so that each block of k and v is read from L3 once for all of them.
inline constexpr int64_t kPanelsPerTask = 8;

/// Working memory that the tasks of a thread reuse, in one piece: with short sequences, taking memory costs as much as
/// the arithmetic.
template <class T>
class ForwardScratch {
 public:
  ForwardScratch(int64_t dim, int64_t value_dim, int64_t keys, int64_t width, bool is_narrow)
      : memory_(Sizes(dim, value_dim, keys, width, is_narrow).total()) {
    const Sizes sizes(dim, value_dim, keys, width, is_narrow);
    packed = memory_.data();
    output = packed + sizes.packed;
    earlier = output + sizes.output;
    block = earlier + sizes.earlier;
    rows = block + sizes.block;
    widened = rows + sizes.rows;
  }
  T *packed, *output, *earlier, *block, *rows, *widened;

 private:
  struct Sizes {
    Sizes(int64_t dim, int64_t value_dim, int64_t keys, int64_t width, bool is_narrow)
        : packed(kPanelsPerTask * dim * width),
          output(kPanelsPerTask * value_dim * width),
          earlier(keys > kKeyChunk ? output : 0),
          block(3 * kKeyBlock * width),
          rows(5 * kPanelsPerTask * width),
          widened(is_narrow ? kKeyBlock * (dim + value_dim) : 0) {}
    int64_t total() const { return packed + output + earlier + block + rows + widened; }
    int64_t packed, output, earlier, block, rows, widened;
  };
  Scratch<T> memory_;
};

/// The state of one panel. Points into the scratch memory.
template <class T>
struct PanelState {
  int64_t first = 0, count = 0, width = 0;
  T *packed = nullptr, *output = nullptr;  ///< [dim][width], [value_dim][width]
  T *max = nullptr, *sum = nullptr, *decay = nullptr;
  T *earlier_output = nullptr, *earlier_max = nullptr, *earlier_sum = nullptr;  ///< of the chunks before
  bool has_earlier = false;

  void clear(int64_t value_dim) const {
    std::fill_n(output, value_dim * width, T{0});
    std::fill_n(max, width, kHidden<T>);
    std::fill_n(sum, width, T{0});
  }
};

/// Joins the result of a chunk of keys to that of the chunks before it. Begins the next chunk.
template <class T>
HWY_NOINLINE void EndChunk(PanelState<T>& panel, int64_t value_dim) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t n = 0; n < panel.width && panel.has_earlier; n += lanes) {
    const auto shares = SharesOf(d, hn::LoadU(d, panel.earlier_max + n), hn::LoadU(d, panel.max + n));
    hn::StoreU(shares.max, d, panel.max + n);
    hn::StoreU(shares.joined(hn::LoadU(d, panel.earlier_sum + n), hn::LoadU(d, panel.sum + n)), d, panel.sum + n);
    for (int64_t at = n; at < value_dim * panel.width; at += panel.width) {
      const auto before = hn::LoadU(d, panel.earlier_output + at), more = hn::LoadU(d, panel.output + at);
      hn::StoreU(shares.joined(before, more), d, panel.output + at);
    }
  }
  std::swap(panel.output, panel.earlier_output);
  std::swap(panel.max, panel.earlier_max);
  std::swap(panel.sum, panel.earlier_sum);
  panel.has_earlier = true;
  panel.clear(value_dim);
}

/// Replaces scores by e^(score − max) and updates the sums and the factor by which the earlier output must shrink.
/// Returns true if that factor is not 1 for every query.
template <int kVectors, class T>
HWY_INLINE bool PanelSoftmax(int64_t rows, T* scores, const PanelState<T>& panel) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  V top[kVectors], sum[kVectors], shift[kVectors];
  HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) top[n] = hn::LoadU(d, panel.max + n * lanes);
  for (int64_t row = 0; row < rows; ++row) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
      top[n] = hn::Max(top[n], hn::LoadU(d, scores + (row * kVectors + n) * lanes));
    }
  }
  bool shrinks = false;
  HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
    const auto before = hn::LoadU(d, panel.max + n * lanes);
    // A query that has seen no key yet keeps a maximum of −inf. Subtract 0 then, so that −inf − 0 is −inf and not NaN.
    shift[n] = hn::IfThenElse(hn::Eq(top[n], hn::Set(d, kHidden<T>)), hn::Zero(d), top[n]);
    const auto decay = WeightExp(d, hn::Sub(before, shift[n]));
    shrinks = shrinks || !hn::AllTrue(d, hn::Eq(before, top[n]));
    hn::StoreU(top[n], d, panel.max + n * lanes);
    hn::StoreU(decay, d, panel.decay + n * lanes);
    sum[n] = hn::Mul(hn::LoadU(d, panel.sum + n * lanes), decay);
  }
  for (int64_t row = 0; row < rows; ++row) {
    HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) {
      T* s = scores + (row * kVectors + n) * lanes;
      const auto e = WeightExp(d, hn::Sub(hn::LoadU(d, s), shift[n]));
      sum[n] = hn::Add(sum[n], e);
      hn::StoreU(e, d, s);
    }
  }
  HWY_UNROLL(4) for (int n = 0; n < kVectors; ++n) hn::StoreU(sum[n], d, panel.sum + n * lanes);
  return shrinks;
}

/// output += v · weights where some value is not finite. Skips weights of 0, because 0 · NaN = NaN.
template <int kVectors, class T>
HWY_NOINLINE void AddValuesWithCare(const HeadSlice<T>& head, KeyRange keys, const T* weights,
                                    const PanelState<T>& panel, bool shrinks) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < head.value_dim; ++c) {
    for (int n = 0; n < kVectors; ++n) {
      T* o = panel.output + (c * kVectors + n) * lanes;
      auto sum = hn::LoadU(d, o);
      if (shrinks) sum = hn::Mul(sum, hn::LoadU(d, panel.decay + n * lanes));
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        const auto w = hn::LoadU(d, weights + ((key - keys.begin) * kVectors + n) * lanes);
        const auto more = hn::MulAdd(hn::Set(d, head.value_row(key)[c]), w, sum);
        sum = hn::IfThenElse(hn::Eq(w, hn::Zero(d)), sum, more);
      }
      hn::StoreU(sum, d, o);
    }
  }
}

template <int kVectors, class T>
HWY_INLINE void PanelStep(const HeadSlice<T>& head, const PanelState<T>& panel, KeyRange keys, bool values_finite,
                          T* scores) {
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t rows = keys.end - keys.begin;
  T* extra = scores + kKeyBlock * width;
  if (!PanelScores<kVectors>(head, panel.packed, panel.first, panel.count, keys, scores, extra)) return;
  const bool shrinks = PanelSoftmax<kVectors>(rows, scores, panel);
  if (head.dropout > 0) DropWeights<kVectors>(head, panel.first, keys, scores);
  if (!values_finite) {
    AddValuesWithCare<kVectors>(head, keys, scores, panel, shrinks);
    return;
  }
  head.for_runs(keys, [&](KeyRange run) {
    MultiplyRows<kVectors, T>(
        {.in = {head.value_row(run.begin), 1, head.v_row, scores + (run.begin - keys.begin) * width, width},
         .depth = run.end - run.begin,
         .c = panel.output,
         .c_row = width,
         .add = true,
         .decay = shrinks && run.begin == keys.begin ? panel.decay : nullptr},
        head.value_dim);
  });
}

template <class T>
void StepOfAnyWidth(const HeadSlice<T>& head, const PanelState<T>& panel, KeyRange keys, bool values_finite,
                    T* scores) {
  switch (PanelVectors<T>(panel.count)) {
    case 1:
      return PanelStep<1>(head, panel, keys, values_finite, scores);
    case 2:
      return PanelStep<2>(head, panel, keys, values_finite, scores);
    default:
      return PanelStep<3>(head, panel, keys, values_finite, scores);
  }
}

/// y = output / sum, transposed back into rows; lse = max + log sum. A query that sees no key gives 0 and −inf.
template <class T>
void FinishPanel(const HeadSlice<T>& head, const PanelState<T>& panel, T* y, int64_t y_row, T* lse, int64_t lse_step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = panel.width;
  for (int64_t n = 0; n < width; n += lanes) {
    const auto sum = hn::LoadU(d, panel.sum + n);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T{1}), sum)), d, panel.decay + n);
  }
  for (int64_t c = 0; c < head.value_dim; ++c) {
    for (int64_t n = 0; n < width; n += lanes) {
      T* o = panel.output + c * width + n;
      hn::StoreU(hn::Mul(hn::LoadU(d, o), hn::LoadU(d, panel.decay + n)), d, o);
    }
  }
  TransposeScaled(panel.output, width, head.value_dim, panel.count, T{1}, y + panel.first * y_row, y_row);
  for (int64_t i = 0; i < panel.count; ++i) {
    lse[(panel.first + i) * lse_step] = panel.max[i] + std::log(panel.sum[i]);
  }
}

/// Where a head's results go: rows of y and one lse per query.
template <class T>
struct ForwardOutput {
  T* y = nullptr;
  int64_t y_row = 0;
  T* lse = nullptr;
  int64_t lse_step = 0;
};

/// The keys and values of a block of bf16 pages in f32: k [dim][kKeyBlock] and v [kKeyBlock][value_dim] in `to`.
inline HeadSlice<float> WidenBlock(HeadSlice<float> head, KeyRange keys, float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  float* const v = to + kKeyBlock * head.dim;
  const int64_t begin = block_begin(keys.begin);
  for (int64_t page = keys.begin / kPageKeys * kPageKeys; page < keys.end; page += kPageKeys) {
    const BFloat16* from = head.key_at<BFloat16>(page);
    for (int64_t c = 0; c < head.dim; ++c) {
      for (int64_t n = 0; n < kPageKeys; n += lanes) {
        hn::StoreU(LoadWide(from + c * kPageKeys + n), hn::ScalableTag<float>(), to + c * kKeyBlock + page - begin + n);
      }
    }
    from = head.value_row<BFloat16>(page);
    float* rows = v + (page - begin) * head.value_dim;
    for (int64_t n = 0; n < kPageKeys * head.value_dim; n += lanes) {  // whole vectors: a page has 16 rows
      hn::StoreU(LoadWide(from + n), hn::ScalableTag<float>(), rows + n);
    }
  }
  head.pages = nullptr;
  head.k = to, head.k_row = 1, head.k_feature = kKeyBlock;
  head.v = v, head.v_row = head.value_dim;
  head.first_held = begin;
  return head;
}

/// Whether the values of these keys may be multiplied by weights of 0.
template <class T>
bool AreFinite(const HeadSlice<T>& head, KeyRange keys) {
  bool finite = true;
  if (!head.may_hide_keys()) return finite;
  head.for_runs(keys, [&](KeyRange part) {
    finite = finite && AllFinite(head.value_row(part.begin), head.v_row, part.end - part.begin, head.value_dim);
  });
  return finite;
}

/// Processes queries [first, end) of one head. `is_narrow`: keys and values are bf16, in pages.
template <class T>
void ForwardTask(const HeadSlice<T>& head, int64_t first, int64_t end, bool is_narrow, const ForwardScratch<T>& scratch,
                 const ForwardOutput<T>& out) {
  const int64_t full = PanelWidth<T>();
  PanelState<T> panels[kPanelsPerTask];
  int64_t panel_count = 0;
  for (int64_t i = first; i < end; i += full, ++panel_count) {
    PanelState<T>& panel = panels[panel_count];
    const int64_t p = panel_count;
    const auto row = [&](int64_t n) { return scratch.rows + (5 * p + n) * full; };
    panel = {.first = i,
             .count = std::min(full, end - i),
             .packed = scratch.packed + p * head.dim * full,
             .output = scratch.output + p * head.value_dim * full,
             .max = row(0),
             .sum = row(1),
             .decay = row(2),
             .earlier_output = scratch.earlier + p * head.value_dim * full,
             .earlier_max = row(3),
             .earlier_sum = row(4)};
    panel.width = PanelVectors<T>(panel.count) * (full / kTileVectors);
    PackQueries(head, i, panel.count, panel.width, panel.packed);
    panel.clear(head.value_dim);
  }
  const KeyRange seen = head.visible_to_any(first, end);
  bool values_finite = is_narrow || AreFinite(head, seen);
  HeadSlice<T> block = head;
  for (int64_t begin = block_begin(seen.begin); begin < seen.end; begin += kKeyBlock) {
    const bool is_next_chunk = begin % kKeyChunk == 0 && begin > seen.begin;
    if constexpr (std::is_same_v<T, float>) {
      const KeyRange some{std::max(begin, seen.begin), std::min(begin + kKeyBlock, seen.end)};
      if (is_narrow) block = WidenBlock(head, some, scratch.widened);
      if (is_narrow) values_finite = AreFinite(block, some);
    }
    for (int64_t p = 0; p < panel_count; ++p) {
      if (is_next_chunk) EndChunk(panels[p], head.value_dim);
      const KeyRange mine = head.visible_to_any(panels[p].first, panels[p].first + panels[p].count);
      const KeyRange keys{std::max(begin, mine.begin), std::min({begin + kKeyBlock, seen.end, mine.end})};
      if (keys.begin < keys.end) StepOfAnyWidth(block, panels[p], keys, values_finite, scratch.block);
    }
  }
  for (int64_t p = 0; p < panel_count; ++p) {
    if (panels[p].has_earlier) {
      EndChunk(panels[p], head.value_dim);
      std::swap(panels[p].output, panels[p].earlier_output);
      std::swap(panels[p].max, panels[p].earlier_max);
      std::swap(panels[p].sum, panels[p].earlier_sum);
    }
    FinishPanel(head, panels[p], out.y, out.y_row, out.lse, out.lse_step);
  }
}

template <class T>
void ForwardHeads(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse) {
  const int64_t heads = problem.q.shape[1], rows_per_task = kPanelsPerTask * PanelWidth<T>();
  const bool is_narrow = problem.pages && problem.k.dtype == DType::bf16;
  struct Task {
    const SequenceSpan* span;
    int64_t head, first;
  };
  std::vector<Task> tasks;
  for (const SequenceSpan& span : spans) {
    const int64_t queries = span.queries();
    for (int64_t h = 0; h < heads; ++h) {
      // Later queries of a causal head see more keys. They go first, so that the last tasks are short.
      for (int64_t first = (queries - 1) / rows_per_task * rows_per_task; first >= 0; first -= rows_per_task) {
        tasks.push_back({&span, h, first});
      }
    }
  }
  const auto run = [&](const Task& task, const ForwardScratch<T>& scratch) {
    const HeadSlice<T> head = slice_of<T>(problem, *task.span, task.head);
    if (head.queries == 0) return;
    const int64_t end = std::min(task.first + rows_per_task, head.queries);
    const auto at = [&](const View& view) {
      return static_cast<T*>(view.data) + task.span->batch * view.strides[0] + task.head * view.strides[1] +
             task.span->q_begin * view.strides[2];
    };
    ForwardTask<T>(head, task.first, end, is_narrow, scratch, {at(y), y.strides[2], at(lse), lse.strides[2]});
  };
  // One task takes several short sequences: a sequence of 15 tokens takes only a few microseconds.
  const int64_t pairs = std::max<int64_t>(1, std::min(problem.q.shape[2], rows_per_task) * problem.k.shape[2]);
  parallel_ranges(static_cast<int64_t>(tasks.size()), kKeyBlock * kKeyBlock / pairs, [&](int64_t begin, int64_t end) {
    const FlushTinyNumbers flush;
    const ForwardScratch<T> scratch(problem.q.shape[3], problem.v.shape[3], problem.k.shape[2], PanelWidth<T>(),
                                    is_narrow);
    for (int64_t t = begin; t < end; ++t) run(tasks[static_cast<size_t>(t)], scratch);
  });
}

void AttentionForward(const AttentionProblem& problem, std::span<const SequenceSpan> spans, View y, View lse) {
  WithFloat(problem.q.dtype, "attention", [&](auto type) { ForwardHeads<decltype(type)>(problem, spans, y, lse); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionForward);
namespace {

/// The forward pass of keys and values in another type than q, which are converted first.
void forward_converted(AttentionProblem problem, View y, View lse) {
  const auto convert = [&](ConstView& x, const Scratch<std::byte>& memory) {
    const View same{memory.data(), problem.q.dtype, x.shape, contiguous_strides(x.shape)};
    copy(x, same);
    x = same;
  };
  const auto bytes = [&](const ConstView& x) {
    return std::max<int64_t>(1, x.shape.numel() * static_cast<int64_t>(size_of(problem.q.dtype)));
  };
  const Scratch<std::byte> keys(bytes(problem.k)), values(bytes(problem.v));
  convert(problem.k, keys);
  convert(problem.v, values);
  attention_forward(problem, y, lse);
}

}  // namespace

void attention_forward(const AttentionProblem& problem, View y, View lse) {
  if (!problem.pages && problem.k.dtype != problem.q.dtype) return forward_converted(problem, y, lse);
  constexpr int64_t kFewQueries = 12;  // a beam or guesses: attention_decode gives the same bits and wastes no lanes
  std::vector<SequenceSpan> few, many;
  for (const SequenceSpan& span : sequences_of(problem)) {
    const bool is_packed = problem.q_offsets && !problem.pages;
    const bool is_few = span.queries() <= kFewQueries && !is_packed && problem.q.dtype == DType::f32;
    (is_few ? few : many).push_back(span);
  }
  if (!few.empty()) attention_decode(problem, few, y, lse);
  if (many.empty()) return;
  ATTEND_DISPATCH(problem.q.dtype, AttentionForward)(problem, many, y, lse);
}
}  // namespace attend::cpu
#endif
