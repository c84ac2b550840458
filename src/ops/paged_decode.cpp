#include "ops/paged_decode.h"

#include <cmath>

#include "attend/tensor/creation.h"
#include "ops/broadcast.h"
#include "ops/check.h"

namespace attend {

AttentionResult paged_decode(const Tensor& q, const DevicePages& pages, const AttentionOptions& options) {
  require<ShapeError>(q.rank() == 4 && q.dim(2) == 1 && q.dtype() == DType::f32 && q.dim(3) > 0 && q.strides()[3] == 1,
                      "paged_decode: expected q in f32 [tokens, heads, 1, dim], got ", q.dtype(), " ", q.shape());
  const int64_t tokens = q.dim(0), heads = q.dim(1), dim = q.dim(3), width = pages.keys.dim(1), key_heads = width / dim;
  require<ShapeError>(width % dim == 0 && key_heads > 0 && heads % key_heads == 0 &&
                          pages.values.shape() == pages.keys.shape() && pages.keys.is_contiguous() &&
                          pages.values.is_contiguous(),
                      "paged_decode: ", heads, " heads of size ", dim, " with keys ", pages.keys.shape(),
                      " and values ", pages.values.shape());
  const int64_t positions = pages.tables.dim(1) * kPageKeys;
  require<ShapeError>(positions % kTablePositions == 0, "paged_decode: a table has ", positions,
                      " positions, which is not a multiple of ", kTablePositions);
  require<ShapeError>(pages.table_rows.numel() == tokens && pages.lengths.numel() == tokens && pages.runs.numel() >= 2,
                      "paged_decode: ", tokens, " tokens, but ", pages.table_rows.numel(), " tables and ",
                      pages.lengths.numel(), " lengths");
  require<ShapeError>(!options.mask && !options.lengths && !options.q_offsets && options.dropout == 0,
                      "paged_decode: mask, lengths, offsets and dropout are not supported");
  const auto paged = [&](const Tensor& x) {
    const Shape shape{tokens, key_heads, positions, dim};
    return ConstView{x.view().data, x.dtype(), shape, Strides{0, dim, width, 1}};
  };
  const Tensor y = empty(q.shape(), {DType::f32, q.device()}), lse = empty({tokens, heads, 1}, {.device = q.device()});
  AttentionProblem problem{.q = q.view(),
                           .k = paged(pages.keys),
                           .v = paged(pages.values),
                           .lengths = pages.lengths.view(),
                           .bottom_right = true,
                           .window = options.window,
                           .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim))),
                           .softcap = options.softcap,
                           .page_table = pages.tables.view(),
                           .table_rows = pages.table_rows.view(),
                           .runs = pages.runs.view()};
  if (options.alibi) problem.alibi = options.alibi.view();
  Tensor bias;
  if (options.bias) {
    bias = stretched(options.bias, {tokens, heads, 1, positions}, "paged_decode");
    problem.bias = bias.view();
  }
  kernels(q.device()).attention.forward(problem, y.view(), lse.view());
  return {y, lse};
}

}  // namespace attend
