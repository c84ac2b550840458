#include "backend/cpu/attention_plan.h"
#include "backend/cpu/attention_slice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/attention_gradient-inl.h"
// clang-format on

// Backward pass: five products for each block of keys and queries (scores again, dO·Vᵀ, dV, dK, dQ) with one pass of
// arithmetic between them, about 7 cycles against the 160 that the products take for each vector at head size 64.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

inline constexpr int64_t kQueryBlock = 64;

template <class T>
HWY_INLINE int64_t PanelsPerBlock() {
  return std::max<int64_t>(1, 96 / PanelWidth<T>());
}

template <class T>
int64_t PaddedWidth(int64_t dim) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return (dim + lanes - 1) / lanes * lanes;
}

/// Rows of dq being summed: the output itself, or memory of our own with padded rows.
template <class T>
struct QueryGradients {
  T* data = nullptr;
  int64_t row = 0;
};

/// Everything one block of keys needs while queries stream past.
template <class T>
struct KeyBlockScratch {
  KeyBlockScratch(int64_t dim, int64_t value_dim)
      : width(PanelWidth<T>()),
        panels(PanelsPerBlock<T>()),
        padded(PaddedWidth<T>(dim)),
        keys_turned(panels * dim * width),
        values_turned(panels * value_dim * width),
        key_rows(panels * width * padded),
        dk_turned(panels * dim * width),
        dv_turned(panels * value_dim * width),
        weights(panels * kQueryBlock * width),
        gradients(panels * kQueryBlock * width),
        row(3 * width) {}
  int64_t width, panels, padded;
  Scratch<T> keys_turned, values_turned;  ///< [panel][dim][width]
  Scratch<T> key_rows;                    ///< [key][padded]
  Scratch<T> dk_turned, dv_turned;
  Scratch<T> weights, gradients;  ///< [panel][query][width]
  Scratch<T> row;                 ///< extra, factors, bias gradients of one row
};

template <class T>
void PackKeys(const HeadSlice<T>& head, KeyRange keys, const KeyBlockScratch<T>& block) {
  for (int64_t p = 0; p < block.panels; ++p) {
    const int64_t first = keys.begin + p * block.width;
    const int64_t count = std::clamp<int64_t>(keys.end - first, 0, block.width);
    T* turned = block.keys_turned.data() + p * head.dim * block.width;
    T* values = block.values_turned.data() + p * head.value_dim * block.width;
    if (count < block.width) {
      std::fill_n(turned, head.dim * block.width, T{0});
      std::fill_n(values, head.value_dim * block.width, T{0});
    }
    if (count > 0) {
      TransposeScaled(head.k + first * head.k_row, head.k_row, count, head.dim, head.scale, turned, block.width);
      TransposeScaled(head.v + first * head.v_row, head.v_row, count, head.value_dim, T{1}, values, block.width);
    }
  }
  T* rows = block.key_rows.data();
  std::fill_n(rows, block.panels * block.width * block.padded, T{0});
  for (int64_t j = keys.begin; j < keys.end; ++j, rows += block.padded) {
    for (int64_t c = 0; c < head.dim; ++c) rows[c] = head.scale * head.k[j * head.k_row + c];
  }
  std::fill_n(block.dk_turned.data(), block.panels * head.dim * block.width, T{0});
  std::fill_n(block.dv_turned.data(), block.panels * head.value_dim * block.width, T{0});
}

/// Where one head's upstream gradient, statistics and bias gradient lie.
template <class T>
struct Upstream {
  const T* dy = nullptr;
  int64_t dy_row = 0;
  const T *lse = nullptr, *delta = nullptr;  ///< one for each query
  T* dbias = nullptr;
  int64_t dbias_row = 0, dbias_key = 0;
  bool q_finite = true, dy_finite = true;  ///< else what a query may not see must be kept from it by force
};

/// Asks for the same keys of a row a little further on: rows of a bias lie far apart, and each would miss by itself.
template <class T>
HWY_INLINE void PrefetchAhead(const T* bias, int64_t row, int64_t query, int64_t key, int64_t count) {
  constexpr int64_t kRowsAhead = 12;
  if (bias == nullptr || row == 0) return;
  const T* ahead = bias + (query + kRowsAhead) * row + key;  // a hint: harmless beyond the end
  for (int64_t j = 0; j < count; j += 64 / static_cast<int64_t>(sizeof(T))) hwy::Prefetch(ahead + j);
  hwy::Prefetch(ahead + count - 1);
}

template <class T>
void AddBiasGradients(const Upstream<T>& up, int64_t query, int64_t key, int64_t count, const T* HWY_RESTRICT row) {
  T* HWY_RESTRICT out = up.dbias + query * up.dbias_row + key * up.dbias_key;
  if (up.dbias_key == 1) {
    for (int64_t j = 0; j < count; ++j) out[j] += row[j];
  } else {
    for (int64_t j = 0; j < count; ++j) out[j * up.dbias_key] += row[j];
  }
}

/// Weights and score gradients of queries [begin, end) against panels [first_panel, end_panel).
template <class T>
void WeighQueries(const HeadSlice<T>& head, const Upstream<T>& up, KeyRange keys, KeyRange queries, KeyRange panels,
                  const KeyBlockScratch<T>& block) {
  const int64_t width = block.width, count = queries.end - queries.begin;
  const bool extras = head.mask || head.bias;
  const bool options = head.softcap > 0 || head.slope != 0 || head.dropout > 0 || up.dbias != nullptr;
  T *extra = block.row.data(), *factors = extra + width, *dbias = factors + width;
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    T* weights = block.weights.data() + p * kQueryBlock * width;
    T* gradients = block.gradients.data() + p * kQueryBlock * width;
    MultiplyRows<kTileVectors, T>({.in = {head.q + queries.begin * head.q_row, head.q_row, 1,
                                          block.keys_turned.data() + p * head.dim * width, width},
                                   .depth = head.dim,
                                   .c = weights,
                                   .c_row = width},
                                  count);
    MultiplyRows<kTileVectors, T>({.in = {up.dy + queries.begin * up.dy_row, up.dy_row, 1,
                                          block.values_turned.data() + p * head.value_dim * width, width},
                                   .depth = head.value_dim,
                                   .c = gradients,
                                   .c_row = width},
                                  count);
    const int64_t key = keys.begin + p * width, present = std::min(width, keys.end - key);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t i = queries.begin + r;
      const KeyRange seen = head.visible(i);
      GradientRow<T> row{
          .query = i,
          .key = key,
          .seen = {std::clamp<int64_t>(seen.begin - key, 0, width), std::clamp<int64_t>(seen.end - key, 0, present)},
          .lse = up.lse[i],
          .delta = up.delta[i],
          .weights = weights + r * width,
          .gradients = gradients + r * width};
      if (extras) {
        PrefetchAhead(head.bias, head.bias_row, i, key, present);
        std::fill(extra + present, extra + width, T{0});
        ExtraRow(head, i, key, present, extra);
        row.extra = extra;
      }
      if (head.dropout > 0) {
        KeepFactors(head, i, key, width, factors);
        row.factors = factors;
      }
      if (up.dbias != nullptr) {
        PrefetchAhead<T>(up.dbias, up.dbias_row, i, key, present);
        row.bias_gradients = dbias;
      }
      const bool hides = extras || row.seen.begin > 0 || row.seen.end < width;
      if (options && hides)
        SoftmaxGradient<true, true>(head, row);
      else if (options)
        SoftmaxGradient<false, true>(head, row);
      else if (hides)
        SoftmaxGradient<true, false>(head, row);
      else
        SoftmaxGradient<false, false>(head, row);
      if (up.dbias != nullptr) AddBiasGradients(up, i, key, present, dbias);
    }
  }
}

/// dq += dS · K where some key is not finite: a gradient of 0 must not meet it.
template <class T>
HWY_NOINLINE void AddKeysWithCare(KeyRange queries, KeyRange panels, const KeyBlockScratch<T>& block,
                                  const QueryGradients<T>& dq) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const T* ds = block.gradients.data() + (p * kQueryBlock + i - queries.begin) * block.width;
      for (int64_t j = 0; j < block.width; ++j) {
        if (ds[j] == 0) continue;
        const T* key = block.key_rows.data() + (p * block.width + j) * block.padded;
        for (int64_t c = 0; c < block.padded; c += lanes) {
          T* sum = dq.data + i * dq.row + c;
          hn::StoreU(hn::MulAdd(hn::Set(d, ds[j]), hn::LoadU(d, key + c), hn::LoadU(d, sum)), d, sum);
        }
      }
    }
  }
}

/// dq[queries] += dS · K, three vectors of features at a time.
template <class T>
void AddQueryGradients(KeyRange queries, KeyRange panels, const KeyBlockScratch<T>& block,
                       const QueryGradients<T>& dq) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t width = block.width;
  for (int64_t c = 0; c < block.padded; c += kTileVectors * lanes) {
    const TileProduct<T> product{.in = {block.gradients.data() + panels.begin * kQueryBlock * width, width, 1,
                                        block.key_rows.data() + panels.begin * width * block.padded + c, block.padded},
                                 .depth = width,
                                 .segments = panels.end - panels.begin,
                                 .a_segment = kQueryBlock * width,
                                 .b_segment = width * block.padded,
                                 .c = dq.data + queries.begin * dq.row + c,
                                 .c_row = dq.row,
                                 .add = true};
    const int64_t rows = queries.end - queries.begin, left = (block.padded - c) / lanes;
    if (left >= 3)
      MultiplyRows<3>(product, rows);
    else if (left == 2)
      MultiplyRows<2>(product, rows);
    else
      MultiplyRows<1>(product, rows);
  }
}

/// Some rows of q or dO.
template <class T>
struct QueryRows {
  const T* data = nullptr;
  int64_t stride = 0, count = 0, dim = 0;
  bool finite = true;
};

/// out[dim][key] += Σ_rows row[dim] · factors[row][key]: dV from dO and the weights, dK from q and the score gradients.
/// Where a row is not finite, a factor of 0 must not meet it.
template <class T>
void AddTurned(const QueryRows<T>& rows, const T* factors, T* out) {
  const int64_t width = PanelWidth<T>();
  if (rows.finite) {
    MultiplyRows<kTileVectors, T>(
        {.in = {rows.data, 1, rows.stride, factors, width}, .depth = rows.count, .c = out, .c_row = width, .add = true},
        rows.dim);
    return;
  }
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < rows.dim; ++c) {
    for (int64_t n = 0; n < width; n += lanes) {
      auto sum = hn::LoadU(d, out + c * width + n);
      for (int64_t r = 0; r < rows.count; ++r) {
        const auto factor = hn::LoadU(d, factors + r * width + n);
        const auto more = hn::MulAdd(hn::Set(d, rows.data[r * rows.stride + c]), factor, sum);
        sum = hn::IfThenElse(hn::Eq(factor, hn::Zero(d)), sum, more);
      }
      hn::StoreU(sum, d, out + c * width + n);
    }
  }
}

/// One block of queries against one block of keys.
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
    AddTurned<T>({up.dy + queries.begin * up.dy_row, up.dy_row, count, head.value_dim, up.dy_finite},
                 block.weights.data() + panel, block.dv_turned.data() + p * head.value_dim * width);
    AddTurned<T>({head.q + queries.begin * head.q_row, head.q_row, count, head.dim, up.q_finite},
                 block.gradients.data() + panel, block.dk_turned.data() + p * head.dim * width);
  }
  if (dq.data == nullptr) return;
  if (keys_finite)
    AddQueryGradients(queries, panels, block, dq);
  else
    AddKeysWithCare(queries, panels, block, dq);
}

/// Sums over a turned block back into rows of dk or dv.
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

/// Shared by all units of a call.
template <class T>
struct BackwardCall {
  const AttentionProblem& problem;
  const AttentionGradients& gradients;
  const T* lse = nullptr;    ///< [batch, heads, queries], +inf where a row saw nothing
  const T* delta = nullptr;  ///< likewise
  T* partial = nullptr;      ///< dq of each chunk, [chunk][batch, heads, queries, padded]; null: straight into dq
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

/// One query head of a unit: what comes in and where its gradients go.
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
void BackwardUnit(const BackwardCall<T>& call, const GradientUnit& unit) {
  const AttentionProblem& problem = call.problem;
  const AttentionGradients& out = call.gradients;
  const int64_t group = problem.q.shape[1] / problem.k.shape[1], batch = unit.span.batch;
  const KeyBlockScratch<T> block(problem.q.shape[3], problem.v.shape[3]);
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

/// delta = Σ_d dO · y for each query, and lse with +inf in place of −inf, so that e^(s − lse) is 0 on rows that saw
/// nothing.
template <class T>
void PrepareRows(const AttentionProblem& problem, const AttentionGradients& gradients, T* lse, T* delta) {
  const int64_t heads = problem.q.shape[1], queries = problem.q.shape[2], width = problem.v.shape[3];
  parallel_ranges(problem.q.shape[0] * heads * queries, 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries;
      const T* y = element<T>(gradients.y, b, h, i);
      const T* dy = element<T>(gradients.dy, b, h, i);
      T sum = 0;
      for (int64_t c = 0; c < width; ++c) sum += y[c] * dy[c];
      delta[row] = sum;
      const View& v = {const_cast<void*>(gradients.lse.data), gradients.lse.dtype, gradients.lse.shape,
                       gradients.lse.strides};
      const T value = static_cast<const T*>(v.data)[b * v.strides[0] + h * v.strides[1] + i * v.strides[2]];
      lse[row] = value == kHidden<T> ? -kHidden<T> : value;
    }
  });
}

/// dq = the chunks' partial sums, added in order.
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
  parallel_for(static_cast<int64_t>(plan.tasks.size()), [&](int64_t t) {
    const FlushTinyNumbers flush;
    for (const GradientUnit& unit : plan.tasks[static_cast<size_t>(t)]) BackwardUnit(call, unit);
  });
  if (call.partial != nullptr) SumPartials(call, plan.chunks);
}

void AttentionBackward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  // Keys beyond a sequence's length are never visited: their gradients are zero.
  if (problem.lengths && gradients.dk) fill(gradients.dk, 0);
  if (problem.lengths && gradients.dv) fill(gradients.dv, 0);
  with_float(problem.q.dtype, "attention", [&](auto type) { BackwardHeads<decltype(type)>(problem, gradients); });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(AttentionBackward);
void attention_backward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  HWY_DYNAMIC_DISPATCH(AttentionBackward)(problem, gradients);
}
}  // namespace attend::cpu
#endif
