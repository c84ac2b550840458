#include "attend/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "attend/ops/precision.h"
#include "attend/ops/shape.h"
#include "ops/attention_gradients.h"
#include "ops/check.h"

namespace attend {

Tensor empty_output(const Tensor& q, int64_t width) {
  const Tensor memory = empty({q.dim(0), q.dim(2), q.dim(1), width}, {q.dtype(), q.device()});
  const Strides& s = memory.strides();
  return memory.as_strided({q.dim(0), q.dim(1), q.dim(2), width}, {s[0], s[2], s[1], s[3]}, 0);
}

namespace {

/// x itself if its last axis is dense, else a dense copy. The kernels read all other strides in place.
Tensor with_dense_rows(const Tensor& x) { return x.dim(-1) <= 1 || x.strides()[3] == 1 ? x.detach() : x.clone(); }

/// Whether x is in a bf16 cache that an f32 query reads, which is not recorded.
bool is_narrow(const Tensor& q, const Tensor& x) {
  return q.dtype() == DType::f32 && x.dtype() == DType::bf16 && q.device() != kCpu && !needs_grad(q) && !needs_grad(x);
}

void check_shapes(const Tensor& q, const Tensor& k, const char* op) {
  require_float(q, op, "q");
  if (!is_narrow(q, k)) require_float(k, op, "k");
  for (const auto* tensor : {&q, &k}) {
    require<ShapeError>(tensor->rank() == 4, op, ": expected [batch, heads, length, head_dim], got shape ",
                        tensor->shape());
  }
  require<ShapeError>(q.dtype() == k.dtype() || is_narrow(q, k), op, ": q is ", q.dtype(), " but k is ", k.dtype());
  require<DeviceError>(q.device() == k.device(), op, ": q is on ", q.device(), " but k is on ", k.device());
  require<ShapeError>(q.dim(0) == k.dim(0), op, ": q has batch ", q.dim(0), " but k has ", k.dim(0));
  require<ShapeError>(q.dim(3) == k.dim(3), op, ": q has head size ", q.dim(3), " but k has ", k.dim(3));
  require<ShapeError>(q.dim(1) >= 1 && k.dim(1) >= 1 && q.dim(1) % k.dim(1) == 0, op, ": ", q.dim(1),
                      " query heads are not a multiple of ", k.dim(1), " key heads");
}

void check_value(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (!is_narrow(q, v)) require_float(v, "attention", "v");
  require<ShapeError>(v.rank() == 4, "attention: expected [batch, heads, length, head_dim], got shape ", v.shape());
  require<ShapeError>(v.dtype() == k.dtype(), "attention: k is ", k.dtype(), " but v is ", v.dtype());
  require<DeviceError>(v.device() == q.device(), "attention: q is on ", q.device(), " but v is on ", v.device());
  require<ShapeError>(v.dim(0) == k.dim(0) && v.dim(1) == k.dim(1) && v.dim(2) == k.dim(2),
                      "attention: v must match k in batch, heads and length, got v ", v.shape(), " and k ", k.shape());
}

/// A view of a mask or a bias, broadcast to [batch, heads, queries, keys] with stride 0.
Tensor stretched(const Tensor& x, const Shape& full, const char* op, const char* argument) {
  require<ShapeError>(x.rank() <= 4, op, ": ", argument, " has shape ", x.shape(), " but must broadcast to ", full);
  Strides strides{0, 0, 0, 0};
  const int64_t missing = 4 - x.rank();
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const int64_t size = x.shape()[axis];
    require<ShapeError>(size == full[missing + axis] || size == 1, op, ": ", argument, " has shape ", x.shape(),
                        " but must broadcast to ", full);
    strides[missing + axis] = size == 1 ? 0 : x.strides()[axis];
  }
  return x.as_strided(full, strides, x.offset());
}

void check_offsets(const Tensor& offsets, int64_t length, const char* op, const char* argument) {
  require<ShapeError>(offsets.dtype() == DType::i64 && offsets.rank() == 1 && offsets.dim(0) >= 1, op, ": ", argument,
                      " must be i64 [sequences + 1], got ", offsets.dtype(), " ", offsets.shape());
  if (is_trusted(offsets)) return;
  const std::vector<int64_t> values = offsets.to_vector<int64_t>();
  require<ShapeError>(values.front() == 0 && values.back() == length && std::is_sorted(values.begin(), values.end()),
                      op, ": ", argument, " must increase from 0 to the length ", length);
}

void check_lengths(const Tensor& lengths, int64_t keys, const char* op) {
  if (is_trusted(lengths)) return;
  for (int64_t length : lengths.to_vector<int64_t>()) {
    require<ShapeError>(length >= 0 && length <= keys, op, ": a length of ", length, " is outside 0 … ", keys);
  }
}

void check_packing(const AttentionOptions& options, const Tensor& q, const Tensor& k, const char* op) {
  if (!options.q_offsets && !options.k_offsets) return;
  require<ShapeError>(options.q_offsets && options.k_offsets, op, ": q_offsets and k_offsets must be set together");
  require<ShapeError>(q.dim(0) == 1, op, ": packed sequences need a batch of 1, got ", q.dim(0));
  require<ShapeError>(!options.lengths, op, ": lengths cannot be combined with packed sequences");
  require<ShapeError>(options.q_offsets.dim(0) == options.k_offsets.dim(0), op, ": q_offsets has ",
                      options.q_offsets.dim(0) - 1, " sequences but k_offsets has ", options.k_offsets.dim(0) - 1);
  check_offsets(options.q_offsets, q.dim(2), op, "q_offsets");
  check_offsets(options.k_offsets, k.dim(2), op, "k_offsets");
}

void check_numbers(const AttentionOptions& options, const char* op) {
  require<ShapeError>(options.window >= 0, op, ": window must not be negative, got ", options.window);
  require<ShapeError>(options.softcap >= 0, op, ": softcap must not be negative, got ", options.softcap);
  require<ShapeError>(options.dropout >= 0 && options.dropout < 1, op, ": dropout must be in [0, 1), got ",
                      options.dropout);
  require<ShapeError>(!options.scale || std::isfinite(*options.scale), op, ": scale must be finite");
}

/// A checked call and the tensors that keep its views alive.
struct Call {
  Tensor q, k, v, mask, bias, lengths, q_offsets, k_offsets, alibi;
  AttentionProblem problem;
};

Call prepare(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, const char* op) {
  check_shapes(q, k, op);
  if (v) check_value(q, k, v);
  check_numbers(options, op);
  check_packing(options, q, k, op);
  Call call{.q = with_dense_rows(q), .k = with_dense_rows(k), .v = v ? with_dense_rows(v) : Tensor{}};
  const Shape full{q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
  if (options.mask) {
    require<ShapeError>(options.mask.dtype() == DType::boolean || options.mask.dtype() == DType::u8, op,
                        ": mask must be bool (true = may attend), got ", options.mask.dtype());
    call.mask = stretched(on_device(options.mask, q.device()), full, op, "mask");
  }
  if (options.bias) {
    require_parameter(q, options.bias, op, "bias");
    call.bias = stretched(to(options.bias.detach(), q.dtype()), full, op, "bias");
  }
  if (options.lengths) {
    require<ShapeError>(options.lengths.dtype() == DType::i64 && options.lengths.shape() == Shape{q.dim(0)}, op,
                        ": lengths must be i64 [", q.dim(0), "], got ", options.lengths.dtype(), " ",
                        options.lengths.shape());
    check_lengths(options.lengths, k.dim(2), op);
    call.lengths = on_device(dense(options.lengths), q.device());
  }
  if (options.alibi) {
    require<ShapeError>(options.alibi.dtype() == q.dtype() || options.alibi.dtype() == sum_dtype(q.dtype()), op,
                        ": alibi is ", options.alibi.dtype(), " but q is ", q.dtype());
    require<ShapeError>(options.alibi.shape() == Shape{q.dim(1)}, op, ": alibi must be [", q.dim(1), "], got ",
                        options.alibi.shape());
    call.alibi = to(on_device(options.alibi, q.device()), q.dtype());
  }
  if (options.q_offsets) {
    call.q_offsets = on_device(dense(options.q_offsets), q.device());
    call.k_offsets = on_device(dense(options.k_offsets), q.device());
  }
  const double default_scale = q.dim(3) > 0 ? 1 / std::sqrt(static_cast<double>(q.dim(3))) : 1;
  call.problem = {
      .q = call.q.view(),
      .k = call.k.view(),
      .v = view_or_empty(call.v),
      .mask = view_or_empty(call.mask),
      .bias = view_or_empty(call.bias),
      .lengths = view_or_empty(call.lengths),
      .q_offsets = view_or_empty(call.q_offsets),
      .k_offsets = view_or_empty(call.k_offsets),
      .alibi = view_or_empty(call.alibi),
      .causal = options.causal,
      .bottom_right = options.alignment == Alignment::bottom_right,
      .window = std::min(options.window, q.dim(2) + k.dim(2)),  // a wider window has no effect, and could overflow
      .scale = options.scale.value_or(default_scale),
      .softcap = options.softcap,
      .dropout = options.dropout,
      .random = options.random,
      .batch_invariant = is_batch_invariant()};
  return call;
}

/// A gradient with x's order of axes in memory, so that the gradient of a transpose needs no copy.
Tensor gradient_like(const Tensor& x) {
  return x.strides()[1] < x.strides()[2] && x.dim(1) > 1 ? empty_output(x, x.dim(3)) : empty_like(x);
}

Gradients attention_backward(const Call& call, const Tensor& bias, const Tensor& y, const Tensor& lse, const Tensor& dy,
                             const std::array<bool, 4>& wanted) {
  const Tensor upstream = with_dense_rows(dy);
  Gradients gradients(4);
  if (wanted[0]) gradients[0] = gradient_like(call.q);
  if (wanted[1]) gradients[1] = gradient_like(call.k);
  if (wanted[2]) gradients[2] = gradient_like(call.v);
  View dbias;
  if (wanted[3]) {
    gradients[3] = zeros_like(bias);
    dbias = stretched(gradients[3], {call.q.dim(0), call.q.dim(1), call.q.dim(2), call.k.dim(2)}, "attention", "bias")
                .view();
  }
  kernels(call.q.device())
      .attention.backward(call.problem, {.y = y.view(),
                                         .dy = upstream.view(),
                                         .lse = lse.view(),
                                         .dq = view_or_empty(gradients[0]),
                                         .dk = view_or_empty(gradients[1]),
                                         .dv = view_or_empty(gradients[2]),
                                         .dbias = dbias});
  return gradients;
}

}  // namespace

AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Call call = prepare(q, k, v, options, "attention");
  const Tensor y = empty_output(q, v.dim(3));
  const Tensor lse = empty({q.dim(0), q.dim(1), q.dim(2)}, {sum_dtype(q.dtype()), q.device()});
  kernels(q.device()).attention.forward(call.problem, y.view(), lse.view());
  const std::array<bool, 4> wanted{needs_grad(q), needs_grad(k), needs_grad(v),
                                   options.bias && needs_grad(options.bias)};
  if (std::ranges::none_of(wanted, [](bool wants) { return wants; })) return {y, lse};
  const Tensor bias = options.bias ? options.bias.detach() : Tensor{};
  Tensor output = record("attention", y, {q, k, v, options.bias}, [=](const Tensor& dy) -> Gradients {
    return attention_backward(call, bias, y, lse, dy, wanted);
  });
  return {output, lse};
}

Gradients attention_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                              const AttentionRows& rows) {
  require<ShapeError>(!options.bias || !needs_grad(options.bias), "attention_gradients: the bias needs a gradient");
  const Call call = prepare(q, k, v, options, "attention");
  Gradients gradients = attention_backward(call, {}, rows.y, rows.lse, rows.dy, {true, true, true, false});
  gradients.pop_back();
  return gradients;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return attention_with_lse(q, k, v, options).output;
}

namespace {

/// The chosen indices; all of them if none is chosen.
std::vector<int64_t> selection_of(const std::vector<int64_t>& chosen, int64_t limit, const char* what) {
  if (chosen.empty()) {
    std::vector<int64_t> all(static_cast<size_t>(limit));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  for (int64_t index : chosen) {
    require<ShapeError>(index >= 0 && index < limit, "attention_weights: ", what, " ", index, " is outside 0 … ",
                        limit - 1);
  }
  return chosen;
}

}  // namespace

AttentionWeights attention_weights(const Tensor& q, const Tensor& k, const Tensor& lse, const AttentionOptions& options,
                                   const WeightSelection& selection) {
  const NoGrad no_grad;
  const Call call = prepare(q, k, {}, options, "attention_weights");
  const DType dtype = sum_dtype(q.dtype());
  require<ShapeError>(lse && lse.dtype() == dtype && lse.shape() == Shape{q.dim(0), q.dim(1), q.dim(2)},
                      "attention_weights: lse must be ", dtype, " ", Shape{q.dim(0), q.dim(1), q.dim(2)}, ", got ",
                      lse.dtype(), " ", lse.shape());
  require<ShapeError>(selection.top >= 0 && selection.top <= k.dim(2), "attention_weights: top must be between 0 and ",
                      k.dim(2), " keys, got ", selection.top);
  require<DeviceError>(lse.device() == q.device(), "attention_weights: q is on ", q.device(), " but lse is on ",
                       lse.device());
  const Tensor sums = dense(lse);
  const AttentionSelection chosen{.heads = selection_of(selection.heads, q.dim(1), "head"),
                                  .rows = selection_of(selection.rows, q.dim(2), "row"),
                                  .top = selection.top};
  const Shape shape{q.dim(0), std::ssize(chosen.heads), std::ssize(chosen.rows),
                    selection.top > 0 ? selection.top : k.dim(2)};
  AttentionWeights result{empty(shape, {dtype, q.device()}), {}};
  if (selection.top > 0) result.places = empty(shape, {DType::i64, q.device()});
  kernels(q.device())
      .attention.weights(call.problem, sums.view(), chosen, result.values.view(), view_or_empty(result.places));
  return result;
}

Tensor self_attention(const Tensor& x, bool causal) {
  require_float(x, "self_attention");
  require<ShapeError>(x.rank() >= 2, "self_attention: expected […, length, dim], got shape ", x.shape());
  int64_t batch = 1;
  for (int64_t axis = 0; axis + 2 < x.rank(); ++axis) batch *= x.dim(axis);
  const Tensor all = reshape(x, {batch, 1, x.dim(-2), x.dim(-1)});
  return reshape(attention(all, all, all, {.causal = causal, .scale = 1.0}), x.shape());
}

}  // namespace attend
