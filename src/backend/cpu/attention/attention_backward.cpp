#include "backend/cpu/attention/attention_plan.h"
#include "backend/cpu/attention/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention/attention_key_block-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Backward pass: five products for each block of keys and queries (recomputed scores, dO·Vᵀ, dV, dK, dQ) with one pass
// of elementwise arithmetic between them. At head size 64 the arithmetic takes about 7 cycles per vector, the products
// 160.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// Processes one block of queries against one block of keys.
template <class T>
void StreamQueries(const HeadSlice<T>& head, const Upstream<T>& up, KeyRange keys, KeyRange queries, bool keys_finite,
                   const KeyBlockScratch<T>& block, const QueryGradients<T>& dq) {
  const int64_t width = block.width, count = queries.end - queries.begin;
  const KeyRange any = head.visible_to_any(queries.begin, queries.end);
  const KeyRange panels{std::max<int64_t>(0, (any.begin - keys.begin) / width),
                        (std::min(any.end, keys.end) - keys.begin + width - 1) / width};
  if (panels.begin >= panels.end) return;
  WeighQueries(head, up, keys, queries, panels, block);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const int64_t panel = p * kQueryBlock * width;
    const int vectors = PanelVectors<T>(std::min(width, keys.end - keys.begin - p * width));
    AddTurned<T>({up.dy + queries.begin * up.dy_row, up.dy_row, count, head.value_dim, up.dy_finite}, vectors,
                 block.weights.data() + panel, block.dv_turned.data() + p * head.value_dim * width);
    AddTurned<T>({head.q + queries.begin * head.q_row, head.q_row, count, head.dim, up.q_finite}, vectors,
                 block.gradients.data() + panel, block.dk_turned.data() + p * head.dim * width);
  }
  if (dq.data == nullptr) return;
  if (keys_finite)
    AddQueryGradients(keys, queries, panels, block, dq);
  else
    AddKeysWithCare(keys, queries, panels, block, dq);
}

/// Transposes the sums of a block back into rows of dk or dv, multiplied by `factor`.
template <class T>
void WriteTurned(const T* turned, int64_t dim, T factor, KeyRange keys, int64_t width, T* out, int64_t out_row) {
  for (int64_t first = keys.begin; first < keys.end; first += width, turned += dim * width) {
    TransposeScaled(turned, width, dim, std::min(width, keys.end - first), factor, out + first * out_row, out_row);
  }
}

template <class T>
T* mutable_element(const View& view, int64_t b, int64_t h, int64_t i, int64_t j = 0) {
  return const_cast<T*>(element<T>(ConstView(view), b, h, i, j));
}

/// Data shared by all units of one call.
template <class T>
struct BackwardCall {
  const AttentionProblem& problem;
  const AttentionGradients& gradients;
  const T* lse = nullptr;    ///< [batch, heads, queries], +inf for a query that sees no key
  const T* delta = nullptr;  ///< [batch, heads, queries]
  T* partial = nullptr;      ///< dq of each chunk, [chunk][batch, heads, queries, padded]; null: write to dq directly
  int64_t padded = 0;

  QueryGradients<T> query_gradients(const GradientUnit& unit, int64_t h) const {
    if (!gradients.dq) return {};
    const Shape& shape = problem.q.shape;
    if (partial == nullptr)
      return {mutable_element<T>(gradients.dq, unit.span.batch, h, unit.span.q_begin), gradients.dq.strides[2]};
    const int64_t row = ((unit.chunk * shape[0] + unit.span.batch) * shape[1] + h) * shape[2] + unit.span.q_begin;
    return {partial + row * padded, padded};
  }
};

/// One query head of a unit: its inputs and where its gradients go.
template <class T>
struct HeadWork {
  HeadSlice<T> head;
  Upstream<T> up;
  QueryGradients<T> dq;
};

template <class T>
HeadWork<T> WorkOf(const BackwardCall<T>& call, const GradientUnit& unit, int64_t h) {
  const AttentionGradients& out = call.gradients;
  const Shape& shape = call.problem.q.shape;
  const int64_t batch = unit.span.batch, row = (batch * shape[1] + h) * shape[2] + unit.span.q_begin;
  HeadWork<T> work{slice_of<T>(call.problem, unit.span, h),
                   {.dy = element<T>(out.dy, batch, h, unit.span.q_begin),
                    .dy_row = out.dy.strides[2],
                    .lse = call.lse + row,
                    .delta = call.delta + row},
                   call.query_gradients(unit, h)};
  const HeadSlice<T>& head = work.head;
  if (out.dbias) {
    work.up.dbias = mutable_element<T>(out.dbias, batch, h, unit.span.q_begin, unit.span.k_begin);
    work.up.dbias_row = out.dbias.strides[2];
    work.up.dbias_key = out.dbias.strides[3];
  }
  if (head.may_hide_keys()) {
    work.up.q_finite = AllFinite(head.q, head.q_row, head.queries, head.dim);
    work.up.dy_finite = AllFinite(work.up.dy, work.up.dy_row, head.queries, head.value_dim);
  }
  const int64_t width = call.partial != nullptr ? call.padded : head.dim;
  for (int64_t i = 0; work.dq.data != nullptr && i < head.queries; ++i) {
    std::fill_n(work.dq.data + i * work.dq.row, width, T{0});
  }
  return work;
}

template <class T>
void BackwardUnit(const BackwardCall<T>& call, const GradientUnit& unit, const KeyBlockScratch<T>& block) {
  const AttentionProblem& problem = call.problem;
  const AttentionGradients& out = call.gradients;
  const int64_t group = problem.q.shape[1] / problem.k.shape[1], batch = unit.span.batch;
  const int64_t step = block.panels * block.width;
  std::vector<HeadWork<T>> works;
  for (int64_t h = unit.kv_head * group; h < (unit.kv_head + 1) * group; ++h) works.push_back(WorkOf(call, unit, h));
  const HeadSlice<T>& keys_of = works.front().head;
  for (int64_t begin = unit.keys.begin; begin < unit.keys.end; begin += step) {
    const KeyRange keys{begin, std::min(begin + step, unit.keys.end)};
    PackKeys(keys_of, keys, block);
    const bool finite = !keys_of.may_hide_keys() ||
                        AllFinite(keys_of.k + begin * keys_of.k_row, keys_of.k_row, keys.end - begin, keys_of.dim);
    for (const HeadWork<T>& work : works) {
      const KeyRange queries = work.head.queries_seeing(keys.begin, keys.end);
      for (int64_t i = queries.begin; i < queries.end; i += kQueryBlock) {
        StreamQueries(work.head, work.up, keys, {i, std::min(i + kQueryBlock, queries.end)}, finite, block, work.dq);
      }
    }
    if (out.dk) {
      WriteTurned(block.dk_turned.data(), keys_of.dim, keys_of.scale, keys, block.width,
                  mutable_element<T>(out.dk, batch, unit.kv_head, unit.span.k_begin), out.dk.strides[2]);
    }
    if (out.dv) {
      WriteTurned(block.dv_turned.data(), keys_of.value_dim, T{1}, keys, block.width,
                  mutable_element<T>(out.dv, batch, unit.kv_head, unit.span.k_begin), out.dv.strides[2]);
    }
  }
}

template <class T>
T Dot(const T* a, const T* b, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Computes delta = Σ_d dO · y for each query, and copies lse with +inf in place of −inf, so that e^(s − lse) is 0 on
/// rows that see no key.
template <class T>
void PrepareRows(const AttentionProblem& problem, const AttentionGradients& gradients, T* lse, T* delta) {
  const int64_t heads = problem.q.shape[1], queries = problem.q.shape[2], width = problem.v.shape[3];
  parallel_ranges(problem.q.shape[0] * heads * queries, 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries;
      delta[row] = Dot(element<T>(gradients.y, b, h, i), element<T>(gradients.dy, b, h, i), width);
      const Strides& step = gradients.lse.strides;
      const T value = static_cast<const T*>(gradients.lse.data)[b * step[0] + h * step[1] + i * step[2]];
      lse[row] = value == kHidden<T> ? -kHidden<T> : value;
    }
  });
}

/// dq = the sum of the chunks' partial sums, added in order.
template <class T>
void SumPartials(const BackwardCall<T>& call, int64_t chunks) {
  const Shape& shape = call.problem.q.shape;
  const int64_t rows = shape[0] * shape[1] * shape[2];
  parallel_ranges(rows, 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* out =
          mutable_element<T>(call.gradients.dq, row / shape[2] / shape[1], row / shape[2] % shape[1], row % shape[2]);
      std::copy_n(call.partial + row * call.padded, shape[3], out);
      for (int64_t chunk = 1; chunk < chunks; ++chunk) {
        const T* more = call.partial + (chunk * rows + row) * call.padded;
        for (int64_t c = 0; c < shape[3]; ++c) out[c] += more[c];
      }
    }
  });
}

template <class T>
void BackwardHeads(const AttentionProblem& problem, const AttentionGradients& gradients) {
  const Shape& shape = problem.q.shape;
  const int64_t rows = shape[0] * shape[1] * shape[2];
  const Scratch<T> lse(rows), delta(rows);
  PrepareRows(problem, gradients, lse.data(), delta.data());
  const GradientPlan plan = plan_gradients(problem, gradients.dbias, PanelsPerBlock<T>() * PanelWidth<T>());
  BackwardCall<T> call{problem, gradients, lse.data(), delta.data(), nullptr, PaddedWidth<T>(shape[3])};
  const bool direct = plan.chunks == 1 && call.padded == shape[3];
  const Scratch<T> partial(direct || !gradients.dq ? 0 : plan.chunks * rows * call.padded);
  if (!direct && gradients.dq) call.partial = partial.data();
  // One task takes several short sequences: a sequence of 15 tokens takes only a few microseconds.
  const int64_t pairs = std::max<int64_t>(1, shape[2] * problem.k.shape[2]);
  parallel_ranges(static_cast<int64_t>(plan.tasks.size()), kQueryBlock * kKeyBlock / pairs,
                  [&](int64_t begin, int64_t end) {
                    const FlushTinyNumbers flush;
                    const KeyBlockScratch<T> block(shape[3], problem.v.shape[3]);
                    for (int64_t t = begin; t < end; ++t) {
                      for (const GradientUnit& unit : plan.tasks[static_cast<size_t>(t)])
                        BackwardUnit(call, unit, block);
                    }
                  });
  if (call.partial != nullptr) SumPartials(call, plan.chunks);
}

/// Zeroes the gradients of keys beyond a sequence's length, which the backward pass never visits.
void ClearPadding(const AttentionProblem& problem, View gradient) {
  const auto* lengths = static_cast<const int64_t*>(problem.lengths.data);
  const size_t size = size_of(gradient.dtype);
  View padding = gradient;
  padding.shape[0] = 1;
  for (int64_t b = 0; b < gradient.shape[0]; ++b) {
    if (lengths[b] == gradient.shape[2]) continue;
    padding.shape[2] = gradient.shape[2] - lengths[b];
    const int64_t offset = b * gradient.strides[0] + lengths[b] * gradient.strides[2];
    padding.data = static_cast<std::byte*>(gradient.data) + static_cast<size_t>(offset) * size;
    fill(padding, 0);
  }
}

void AttentionBackward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  if (problem.lengths && gradients.dk) ClearPadding(problem, gradients.dk);
  if (problem.lengths && gradients.dv) ClearPadding(problem, gradients.dv);
  WithFloat(problem.q.dtype, "attention", [&](auto type) { BackwardHeads<decltype(type)>(problem, gradients); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionBackward);
void attention_backward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  ATTEND_DISPATCH(problem.q.dtype, AttentionBackward)(problem, gradients);
}
}  // namespace attend::cpu
#endif
