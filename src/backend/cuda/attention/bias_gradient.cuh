#pragma once

#include <algorithm>

#include "backend/cuda/attention/problem.cuh"
#include "backend/cuda/types.cuh"

// The gradient of the bias. Axes over which the bias was broadcast are summed in a fixed order: a CTA takes in turn all
// blocks of queries that add to the same elements.
namespace attend::cuda::attention {

/// How the kernels for queries divide their blocks.
struct BiasGradient {
  Pairs out;  ///< out.data is null if dbias is not wanted
  DType dtype = DType::f32;
  bool shared_batch = false, shared_head = false;  ///< a CTA takes all batch entries, all heads in turn
  int parts = 0;          ///< of the query blocks, if all rows share their bias; each part has its own sums
  int64_t part_size = 0;  ///< elements of dbias for each part
  int blocks = 0;         ///< blocks of queries per batch entry

  int64_t ctas(const Problem& p) const {
    return int64_t{parts > 0 ? parts : blocks} * (shared_head ? 1 : p.heads) * (shared_batch ? 1 : p.batch);
  }
  template <class C>
  __device__ void add(int64_t at, C sum) const {
    store<C>(out.data, at, dtype, load<C>(out.data, at, dtype) + sum);
  }
};

/// Calls f(block, head, part) for the blocks of `rows` queries of one of the ctas().
template <int kThreads, class F>
__device__ __forceinline__ void for_query_blocks(const Problem& p, const BiasGradient& bias, int rows, int cta, F&& f) {
  const int own_heads = bias.shared_head ? 1 : p.heads, own_batch = bias.shared_batch ? 1 : p.batch;
  const int head = cta % own_heads, rest = cta / own_heads;
  const int batch = rest % own_batch, part = rest / own_batch;
  const int per_part = bias.parts > 0 ? (bias.blocks + bias.parts - 1) / bias.parts : 1;
  const int begin = bias.parts > 0 ? part * per_part : bias.blocks - 1 - part;
  for (int b = batch; b < (bias.shared_batch ? p.batch : batch + 1); ++b) {
    for (int index = begin; index < min(begin + per_part, bias.blocks); ++index) {
      const Block block = query_block<kThreads>(p, b, rows, index);
      if (block.sequence < 0) continue;
      for (int h = head; h < (bias.shared_head ? p.heads : head + 1); ++h) f(block, h, bias.parts > 0 ? part : 0);
    }
  }
}

/// out[n] += Σ_part sums[part][n], where n counts the elements of dbias that have memory of their own.
template <class C>
__global__ void __launch_bounds__(128) join_bias_kernel(Pairs out, DType dtype, const C* sums, int64_t part_size,
                                                        int parts, int heads, int rows, int keys) {
  const int64_t n = int64_t{blockIdx.x} * 128 + threadIdx.x;
  if (n >= part_size) return;
  const int j = static_cast<int>(n % keys), i = static_cast<int>(n / keys % rows);
  const int h = static_cast<int>(n / keys / rows % heads), b = static_cast<int>(n / keys / rows / heads);
  C sum = 0;
  for (int part = 0; part < parts; ++part) sum += sums[part * part_size + n];
  const int64_t at = out.offset(b, h, i, j);
  store<C>(out.data, at, dtype, load<C>(out.data, at, dtype) + sum);
}

/// Calls run(bias) with the plan for `dbias`, which may be empty, and blocks of `queries` queries.
template <class C, class F>
void with_bias_gradient(const Problem& p, const View& dbias, int queries, F&& run) {
  BiasGradient bias;
  bias.blocks = static_cast<int>(query_blocks(p, queries));
  if (!dbias) return run(bias);
  const bool shared_rows = dbias.strides[2] == 0, shared_keys = dbias.strides[3] == 0;
  bias.out = pairs_of(dbias);
  bias.dtype = dbias.dtype;
  bias.shared_batch = dbias.strides[0] == 0 && p.batch > 1;
  bias.shared_head = dbias.strides[1] == 0 && p.heads > 1;
  const bool is_narrow = dbias.dtype != DType::f32 && dbias.dtype != DType::f64;
  if (!shared_rows && !(is_narrow && (bias.shared_batch || bias.shared_head || shared_keys))) return run(bias);

  // Sums of their own for parts of the queries, or in f32 beside a 16-bit dbias.
  constexpr int kParts = 64;
  const int batch = bias.shared_batch ? 1 : p.batch, heads = bias.shared_head ? 1 : p.heads;
  const int rows = shared_rows ? 1 : p.queries, keys = shared_keys ? 1 : p.keys;
  bias.parts = shared_rows ? std::min(kParts, bias.blocks) : 0;
  bias.part_size = int64_t{batch} * heads * rows * keys;
  const int parts = std::max(1, bias.parts);
  const Scratch<C> sums(parts * bias.part_size);
  check(cudaMemsetAsync(sums.data(), 0, static_cast<size_t>(parts * bias.part_size) * sizeof(C), stream()),
        "attention.backward");
  const Pairs out = bias.out;
  bias.out = {sums.data(), bias.shared_batch ? 0 : int64_t{heads} * rows * keys,
              bias.shared_head ? 0 : int64_t{rows} * keys, shared_rows ? 0 : keys, shared_keys ? 0 : 1};
  bias.dtype = std::is_same_v<C, double> ? DType::f64 : DType::f32;
  run(bias);
  launch("attention.backward", join_bias_kernel<C>, (bias.part_size + 127) / 128, 128, 0, out, dbias.dtype,
         static_cast<const C*>(sums.data()), bias.part_size, parts, heads, rows, keys);
}

}  // namespace attend::cuda::attention
