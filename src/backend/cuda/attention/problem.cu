#include "backend/cuda/attention/problem.cuh"

namespace attend::cuda::attention {

Rows4 rows_of(const ConstView& view) {
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  const int64_t count = view.dtype == DType::f64 ? 2 : 4;
  const auto fits = [&](int64_t axis) { return view.shape[axis] <= 1 || view.strides[axis] % count == 0; };
  return {.data = const_cast<void*>(view.data),
          .batch = view.strides[0],
          .head = view.strides[1],
          .row = view.strides[2],
          .dtype = view.dtype,
          .aligned = reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(count * size) == 0 &&
                     view.shape[3] % count == 0 && fits(0) && fits(1) && fits(2)};
}

Pairs pairs_of(const ConstView& view) {
  if (!view) return {};
  return {const_cast<void*>(view.data), view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

Problem problem_of(const AttentionProblem& problem) {
  const Shape &q = problem.q.shape, &k = problem.k.shape;
  const int64_t width = problem.v ? problem.v.shape[3] : 0;
  require<DeviceError>(q[3] <= kLargestDim && width <= kLargestDim, "attention: head sizes up to ", kLargestDim,
                       " are supported on cuda, got head size ", q[3], " and value width ", width);
  require<DeviceError>(q[2] + k[2] <= std::numeric_limits<int>::max() / 2, "attention: ", q[2], " queries and ", k[2],
                       " keys are too many for cuda");
  Problem p;
  p.q = rows_of(problem.q);
  p.k = rows_of(problem.k);
  if (problem.v) p.v = rows_of(problem.v);
  p.mask = pairs_of(problem.mask);
  p.bias = pairs_of(problem.bias);
  p.lengths = static_cast<const int64_t*>(problem.lengths.data);
  p.q_offsets = static_cast<const int64_t*>(problem.q_offsets.data);
  p.k_offsets = static_cast<const int64_t*>(problem.k_offsets.data);
  p.sequences = problem.q_offsets ? static_cast<int>(problem.q_offsets.shape[0] - 1) : 0;
  p.alibi = problem.alibi.data;
  p.alibi_step = problem.alibi ? problem.alibi.strides[0] : 0;
  p.batch = static_cast<int>(q[0]);
  p.heads = static_cast<int>(q[1]);
  p.kv_heads = static_cast<int>(k[1]);
  p.queries = static_cast<int>(q[2]);
  p.keys = static_cast<int>(k[2]);
  p.dim = static_cast<int>(q[3]);
  p.width = static_cast<int>(width);
  p.causal = problem.causal;
  p.bottom_right = problem.bottom_right;
  p.window = static_cast<int>(problem.window);
  p.scale = problem.scale;
  p.softcap = problem.softcap;
  p.drops = problem.dropout > 0;
  p.kept = 1 / (1 - problem.dropout);
  p.threshold = drop_threshold(problem.dropout);
  p.random = problem.random;
  return p;
}

}  // namespace attend::cuda::attention
