#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/tensor_gradient.cuh"

// Backward pass in two kernels, so that every gradient is summed by one CTA in a fixed order: dk and dv by a CTA for
// each block of keys, dq by one for each block of queries. Both recompute the weights from q, k and lse; together they
// take seven products instead of five. A warp keeps 16 rows. In the kernel for keys, rows are keys and columns are
// queries, so that weights and gradients are the left factors of the next products as they are.
namespace attend::cuda {
namespace attention {
namespace {

/// Rows that a CTA keeps, and rows that pass through its buffers.
template <int D>
struct BackwardTile {
  static constexpr int kKept = 16 * kTensorWarps, kPassing = D <= 128 ? 64 : 32, kStages = D <= 128 ? 2 : 1;
  static constexpr int kStage = 2 * kPassing * D;  ///< elements of a buffer
  static constexpr size_t kTiles = 2 * (2 * kKept * D + kStages * kStage);
  static constexpr size_t kShared = kTiles + 1024;
  static constexpr int kTogether = D <= 64 ? 3 : 2;  ///< CTAs per multiprocessor
};

/// Which sums the kernel for keys computes: both, or one of them if the registers do not hold both.
enum class Wanted { both, dk, dv };

/// exponents and deltas: sixteen lanes for each query.
template <class T>
__global__ void __launch_bounds__(kTensorThreads)
    statistics_kernel(const __grid_constant__ HalfBackwardCall call, int64_t rows) {
  if (call.marks.queries.skips_all() && call.marks.keys.skips_all()) return;
  const Problem& p = call.half.p;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  for (unsigned task = blockIdx.x; task < call.tasks; task += gridDim.x) {
    const int64_t row = min(int64_t{task} * (kTensorThreads / 16) + threadIdx.x / 16, rows - 1);
    const int i = static_cast<int>(row % p.queries), h = static_cast<int>(row / p.queries % p.heads);
    const int b = static_cast<int>(row / p.queries / p.heads);
    const uint16_t *y = call.y.at(b, h, i), *dy = call.dy.at(b, h, i);
    float sum = 0;
    for (int c = lane * 8; c < p.width; c += 128) {
      if (call.y.wide && call.dy.wide) {
        const uint4 left = *reinterpret_cast<const uint4*>(y + c), right = *reinterpret_cast<const uint4*>(dy + c);
        const uint32_t a[4]{left.x, left.y, left.z, left.w}, d[4]{right.x, right.y, right.z, right.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) sum = fmaf(unpack<T>(a[e / 2], e % 2), unpack<T>(d[e / 2], e % 2), sum);
      } else {
        for (int e = 0; e < min(8, p.width - c); ++e) sum = fmaf(unpack<T>(y[c + e], 0), unpack<T>(dy[c + e], 0), sum);
      }
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane != 0) continue;
    const float lse = call.lse[b * call.lse_batch + h * call.lse_head + i * call.lse_row];
    call.deltas[row] = sum;
    call.exponents[row] = lse == -INFINITY ? INFINITY : lse * kLog2E;
  }
}

/// dk and dv of a block of keys of one key head: all query heads that share it, and all queries that see the keys.
template <class T, int D, Wanted kWanted>
__device__ __forceinline__ void key_gradients(const HalfBackwardCall& call, int task, uint16_t* memory) {
  using Tile = BackwardTile<D>;
  constexpr int kKept = Tile::kKept, kPassing = Tile::kPassing, N = kPassing / 8;
  constexpr bool kDk = kWanted != Wanted::dv, kDv = kWanted != Wanted::dk;
  const Problem& p = call.half.p;
  const int kv_head = task % p.kv_heads, rest = task / p.kv_heads;
  const Block block = key_block<kTensorThreads>(p, rest % p.batch, kKept, rest / p.batch);
  if (block.sequence < 0) return;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const BlockMarks& marks = call.marks.keys;
  if (marks.skips(
          sequence.batch * p.kv_heads + kv_head,
          p.k_offsets != nullptr ? marks.packed_row(sequence.k_begin, block.sequence, block.first) : block.first))
    return;
  const int first = block.first, count = min(kKept, sequence.keys - first), b = sequence.batch;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int own_first = first + 16 * warp;

  uint16_t *keys = memory, *values = keys + kKept * D, *buffers = values + kKept * D;
  uint16_t *own_keys = keys + 16 * warp * D, *own_values = values + 16 * warp * D;
  float* statistics = reinterpret_cast<float*>(buffers + Tile::kStages * Tile::kStage);  // [stage][2][kPassing]

  const Range seeing = count > 0 ? sequence.queries_seeing(first, first + count) : Range{};
  const int begin = seeing.begin / kPassing * kPassing;
  const int per_head = seeing.begin < seeing.end ? (seeing.end - begin + kPassing - 1) / kPassing : 0;
  const int total = per_head * p.group();
  const auto load_block = [&](int index) {
    const int head = kv_head * p.group() + index / per_head, query = begin + index % per_head * kPassing;
    const int row = sequence.q_begin + query, left = sequence.queries - query, stage = index % Tile::kStages;
    uint16_t* to = buffers + stage * Tile::kStage;
    load_half_tile<kPassing, D>(to, call.half.q, call.half.q.at(b, head, row), left, p.dim);
    load_half_tile<kPassing, D>(to + kPassing * D, call.dy, call.dy.at(b, head, row), left, p.width);
    const int thread = static_cast<int>(threadIdx.x), column = thread % kPassing;
    if (thread < 2 * kPassing) {
      const float* from = thread < kPassing ? call.exponents : call.deltas;
      const bool valid = column < left;
      copy_float_async(statistics + stage * 2 * kPassing + thread,
                       from + (valid ? (int64_t{b} * p.heads + head) * p.queries + row + column : 0), valid);
    }
    commit_copies();
  };
  __syncthreads();
  load_half_tile<kKept, D>(keys, call.half.k, call.half.k.at(b, kv_head, sequence.k_begin + first), count, p.dim);
  load_half_tile<kKept, D>(values, call.half.v, call.half.v.at(b, kv_head, sequence.k_begin + first), count, p.width);
  commit_copies();
  if (total > 0) load_block(0);

  Products<1, D / 8> dk = {}, dv = {};
  for (int index = 0; index < total; ++index) {
    wait_copies();
    __syncthreads();
    if (Tile::kStages == 2 && index + 1 < total) load_block(index + 1);
    const int head = kv_head * p.group() + index / per_head, query = begin + index % per_head * kPassing;
    const int passing = min(kPassing, sequence.queries - query), stage = index % Tile::kStages;
    uint16_t *queries = buffers + stage * Tile::kStage, *upstreams = queries + kPassing * D;
    const Range any = sequence.visible_to_any(query, query + passing);
    const Range all = sequence.visible_to_all(query, query + passing);
    const bool hides = p.hides_pairs() || first < all.begin || first + kKept > all.end;
    const bool unusual = hides && __syncthreads_or(!half_share_is_finite<T, kPassing, D>(queries) ||
                                                   !half_share_is_finite<T, kPassing, D>(upstreams)) != 0;
    const bool busy = own_first < any.end && own_first + 16 > any.begin;
    Weights<1, kPassing> weights = {}, gradients = {};
    if (busy) {
      Products<1, N> scores, upstream = {};
      multiply_tiles<T, D>(own_keys, queries, p.dim, scores);
      if constexpr (kDk) multiply_tiles<T, D>(own_values, upstreams, p.width, upstream);
      const float* statistic = statistics + stage * 2 * kPassing + lane % 4 * 2;
      const Statistics<true, N> of{statistic, statistic + kPassing};
      if (call.half.scored || p.drops || own_first < all.begin || own_first + 16 > all.end) {
        const Pairing<T, true, 1, N> pairs(call.half, sequence, head, query + lane % 4 * 2, own_first + lane / 4);
        full_gradients<false>(pairs, of, scores, upstream);
      } else {
        plain_gradients(call.half.factor(), of, scores, upstream);
      }
      if constexpr (kDv) pack_weights<T>(scores, weights);
      if constexpr (kDk) pack_weights<T>(upstream, gradients);
    }
    if (unusual) {
      if constexpr (kDv) add_unusual_rows<T, D, kPassing>(weights, upstreams, dv);
      if constexpr (kDk) add_unusual_rows<T, D, kPassing>(gradients, queries, dk);
    }
    if (busy) {
      if constexpr (kDv) add_tiles<T, D, kPassing>(weights, upstreams, p.width, dv);
      if constexpr (kDk) add_tiles<T, D, kPassing>(gradients, queries, p.dim, dk);
    }
    if (Tile::kStages == 1 && index + 1 < total) {
      __syncthreads();
      load_block(index + 1);
    }
  }
  wait_copies();
  __syncthreads();

  // Keys beyond the sequence's length have gradients of 0, even if their rows of k or v are not finite.
  const int present = p.k_offsets != nullptr ? count : min(kKept, p.keys - first), row = sequence.k_begin + own_first;
#pragma unroll
  for (int n = 0; n < D / 8 * 4; ++n) {
    if (own_first + lane / 4 + n % 4 / 2 * 8 >= sequence.keys) dk[0][n / 4][n % 4] = dv[0][n / 4][n % 4] = 0;
  }
  const float scale = static_cast<float>(p.scale), share = static_cast<float>(p.kept);
  if (kDk && call.dk.data != nullptr)
    store_half_rows<T, D, 1>(own_keys, call.dk, call.dk.at(b, kv_head, row), present - 16 * warp, p.dim,
                             {{scale, scale}}, dk);
  if (kDv && call.dv.data != nullptr)
    store_half_rows<T, D, 1>(own_values, call.dv, call.dv.at(b, kv_head, row), present - 16 * warp, p.width,
                             {{share, share}}, dv);
}

template <class T, int D, Wanted kWanted>
__global__ void __launch_bounds__(kTensorThreads, BackwardTile<D>::kTogether)
    tensor_key_kernel(const __grid_constant__ HalfBackwardCall call) {
  extern __shared__ __align__(128) uint16_t memory[];
  if (call.marks.keys.skips_all()) return;
  for (unsigned task = blockIdx.x; task < call.tasks; task += gridDim.x)
    key_gradients<T, D, kWanted>(call, static_cast<int>(task), memory);
}

/// Adds gradients of the bias, whose element for the block's first query and key is at `offset`. `count` rows of the
/// warp and `columns` columns exist. The sums over axes that share an element run in a fixed order. All threads of the
/// CTA call it; `sums` is shared memory for [warps][8 N].
template <int N>
__device__ void add_bias_gradients(const HalfBackwardCall& call, int64_t offset, int count, int columns, float* sums,
                                   const Products<1, N>& gradients) {
  const Pairs& out = call.bias.out;
  const auto add = [&](int64_t at, float sum) { call.bias.add(at, sum); };
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int own_row = lane / 4, own_column = lane % 4 * 2;
  if (out.row != 0 && out.key != 0) {
#pragma unroll
    for (int n = 0; n < 4 * N; ++n) {
      const int row = own_row + n % 4 / 2 * 8, column = own_column + n / 4 * 8 + n % 2;
      if (row < count && column < columns)
        add(offset + (16 * warp + row) * out.row + column * out.key, gradients[0][n / 4][n % 4]);
    }
  } else if (out.row != 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = 0;
#pragma unroll
      for (int n = 0; n < 2 * N; ++n) sum += gradients[0][n / 2][2 * r + n % 2];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane % 4 == 0 && own_row + 8 * r < count) add(offset + (16 * warp + own_row + 8 * r) * out.row, sum);
    }
  } else {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 2 * N; ++n) {
      float sum = gradients[0][n / 2][n % 2] + gradients[0][n / 2][2 + n % 2];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (own_row == 0) sums[warp * 8 * N + n / 2 * 8 + own_column + n % 2] = sum;
    }
    __syncthreads();
    float sum = 0;
    for (int w = 0; thread < columns && w < kTensorWarps; ++w) sum += sums[w * 8 * N + thread];
    if (out.key != 0) {
      if (thread < columns) add(offset + thread * out.key, sum);
      return;
    }
    __syncthreads();
    if (thread < 8 * N) sums[thread] = sum;
    __syncthreads();
    if (thread != 0) return;
    for (int n = 1; n < columns; ++n) sum += sums[n];
    add(offset, sum);
  }
}

/// dq of a block of queries of one head, and its part of dbias.
template <class T, int D>
__device__ __forceinline__ void query_gradients(const HalfBackwardCall& call, const Block& block, int head, int part,
                                                uint16_t* memory) {
  using Tile = BackwardTile<D>;
  constexpr int kKept = Tile::kKept, kPassing = Tile::kPassing, N = kPassing / 8;
  const Problem& p = call.half.p;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const int first = block.first, count = min(kKept, sequence.queries - first), b = sequence.batch;
  const int kv_head = head / p.group(), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  uint16_t *queries = memory, *upstreams = queries + kKept * D, *buffers = upstreams + kKept * D;
  uint16_t *own_queries = queries + 16 * warp * D, *own_upstreams = upstreams + 16 * warp * D;
  float* sums = reinterpret_cast<float*>(buffers + Tile::kStages * Tile::kStage);

  const Range any = sequence.visible_to_any(first, first + count);
  const Range all = sequence.visible_to_all(first, first + count);
  const auto load_block = [&](int key, int stage) {
    const int row = sequence.k_begin + key, left = sequence.keys - key;
    uint16_t* to = buffers + stage * Tile::kStage;
    load_half_tile<kPassing, D>(to, call.half.k, call.half.k.at(b, kv_head, row), left, p.dim);
    load_half_tile<kPassing, D>(to + kPassing * D, call.half.v, call.half.v.at(b, kv_head, row), left, p.width);
    commit_copies();
  };
  const int row = sequence.q_begin + first, begin = any.begin / kPassing * kPassing;
  __syncthreads();
  load_half_tile<kKept, D>(queries, call.half.q, call.half.q.at(b, head, row), count, p.dim);
  load_half_tile<kKept, D>(upstreams, call.dy, call.dy.at(b, head, row), count, p.width);
  commit_copies();
  if (begin < any.end) load_block(begin, 0);

  const int own_first = first + 16 * warp, own_count = min(16, count - 16 * warp);
  const Range own_any = own_count > 0 ? sequence.visible_to_any(own_first, own_first + own_count) : Range{};
  const Range own_all = own_count > 0 ? sequence.visible_to_all(own_first, own_first + own_count) : Range{};
  Statistics<false, N> of;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int own_row = lane / 4 + 8 * r;
    const int64_t at = (int64_t{b} * p.heads + head) * p.queries + row + 16 * warp + own_row;
    of.exponent[r] = own_row < own_count ? call.exponents[at] : INFINITY;
    of.delta[r] = own_row < own_count ? call.deltas[at] : 0.f;
  }

  Products<1, D / 8> dq = {};
  for (int key = begin, stage = 0; key < any.end; key += kPassing, stage = (stage + 1) % Tile::kStages) {
    wait_copies();
    __syncthreads();
    if (Tile::kStages == 2 && key + kPassing < any.end) load_block(key + kPassing, stage ^ 1);
    uint16_t *keys = buffers + stage * Tile::kStage, *values = keys + kPassing * D;
    const bool hides = p.hides_pairs() || key < all.begin || key + kPassing > all.end;
    const bool unusual = hides && __syncthreads_or(!half_share_is_finite<T, kPassing, D>(keys)) != 0;
    const bool busy = key < own_any.end && key + kPassing > own_any.begin, biased = call.bias.out.data != nullptr;
    Weights<1, kPassing> gradients = {};
    Products<1, N> scores = {};
    if (busy) {
      Products<1, N> upstream;
      multiply_tiles<T, D>(own_queries, keys, p.dim, scores);
      multiply_tiles<T, D>(own_upstreams, values, p.width, upstream);
      if (biased || call.half.scored || p.drops || key < own_all.begin || key + kPassing > own_all.end) {
        const Pairing<T, false, 1, N> pairs(call.half, sequence, head, own_first + lane / 4, key + lane % 4 * 2);
        full_gradients<true>(pairs, of, scores, upstream);
      } else {
        plain_gradients(call.half.factor(), of, scores, upstream);
      }
      pack_weights<T>(upstream, gradients);
    }
    if (biased) {
      const int64_t offset = part * call.bias.part_size + call.bias.out.offset(b, head, row, sequence.k_begin + key);
      add_bias_gradients<N>(call, offset, own_count, min(kPassing, sequence.keys - key), sums, scores);
    }
    if (unusual) add_unusual_rows<T, D, kPassing>(gradients, keys, dq);
    if (busy) add_tiles<T, D, kPassing>(gradients, keys, p.dim, dq);
    if (Tile::kStages == 1 && key + kPassing < any.end) {
      __syncthreads();
      load_block(key + kPassing, 0);
    }
  }
  wait_copies();
  __syncthreads();
  const float scale = static_cast<float>(p.scale);
  if (call.dq.data != nullptr)
    store_half_rows<T, D, 1>(own_queries, call.dq, call.dq.at(b, head, row + 16 * warp), own_count, p.dim,
                             {{scale, scale}}, dq);
}

/// A task is one block of queries of one head, or in turn all those that add to the same elements of dbias.
template <class T, int D>
__global__ void __launch_bounds__(kTensorThreads, BackwardTile<D>::kTogether)
    tensor_query_kernel(const __grid_constant__ HalfBackwardCall call) {
  extern __shared__ __align__(128) uint16_t memory[];
  if (call.marks.queries.skips_all()) return;
  for (unsigned task = blockIdx.x; task < call.tasks; task += gridDim.x) {
    for_query_blocks<kTensorThreads>(
        call.half.p, call.bias, BackwardTile<D>::kKept, static_cast<int>(task),
        [&](const Block& block, int head, int part) {
          const Problem& p = call.half.p;
          const Sequence sequence = Sequence::of(p, block.sequence);
          const BlockMarks& marks = call.marks.queries;
          const int row =
              p.q_offsets != nullptr ? marks.packed_row(sequence.q_begin, block.sequence, block.first) : block.first;
          if (marks.skips(sequence.batch * p.heads + head, row)) return;
          query_gradients<T, D>(call, block, head, part, memory);
        });
  }
}

template <class T, int D>
void launch_backward(HalfBackwardCall& call, const AttentionGradients& gradients) {
  using Tile = BackwardTile<D>;
  static_assert(Tile::kKept == kBackwardMarkRows);
  const Problem& p = call.half.p;
  const int64_t rows = int64_t{p.batch} * p.heads * p.queries;
  const Scratch<float> exponents(rows), deltas(rows);
  call.exponents = exponents.data();
  call.deltas = deltas.data();
  constexpr int kTogether = kTensorThreads / 16;
  const int64_t few = 2 * multiprocessors();
  call.tasks = static_cast<unsigned>((rows + kTogether - 1) / kTogether);
  launch("attention.backward", statistics_kernel<T>, call.marks.queries.ctas(call.tasks, few), kTensorThreads, 0, call,
         rows);
  call.blocks = static_cast<int>(key_blocks(p, Tile::kKept));
  call.tasks = static_cast<unsigned>(int64_t{call.blocks} * p.kv_heads * p.batch);
  const auto launch_keys = [&](auto* kernel) {
    launch("attention.backward", kernel, call.marks.keys.ctas(call.tasks, few), kTensorThreads, Tile::kShared, call);
  };
  if constexpr (D <= 128) {
    if (gradients.dk || gradients.dv) launch_keys(tensor_key_kernel<T, D, Wanted::both>);
  } else {
    if (gradients.dk) launch_keys(tensor_key_kernel<T, D, Wanted::dk>);
    if (gradients.dv) launch_keys(tensor_key_kernel<T, D, Wanted::dv>);
  }
  if (!gradients.dq && !gradients.dbias) return;
  with_bias_gradient<float>(p, gradients.dbias, Tile::kKept, [&](const BiasGradient& bias) {
    call.bias = bias;
    call.tasks = static_cast<unsigned>(bias.ctas(p));
    launch("attention.backward", tensor_query_kernel<T, D>, call.marks.queries.ctas(call.tasks, few), kTensorThreads,
           Tile::kShared, call);
  });
}

}  // namespace
}  // namespace attention

bool tensor_backward(const AttentionProblem& problem, const AttentionGradients& gradients, const GradientMarks& marks) {
  using namespace attention;
  if (problem.q.dtype != DType::bf16 && problem.q.dtype != DType::f16) return false;
  if (architecture() < 80 || problem.q.shape[3] == 0 || gradients.dy.shape[3] == 0) return false;
  HalfBackwardCall call{half_problem_of(problem)};
  Problem& p = call.half.p;
  p.width = static_cast<int>(gradients.dy.shape[3]);
  call.y = half_rows_of(gradients.y);
  call.dy = half_rows_of(gradients.dy);
  call.dq = half_rows_of(gradients.dq);
  call.dk = half_rows_of(gradients.dk);
  call.dv = half_rows_of(gradients.dv);
  call.lse = static_cast<const float*>(gradients.lse.data);
  call.lse_batch = gradients.lse.strides[0];
  call.lse_head = gradients.lse.strides[1];
  call.lse_row = gradients.lse.strides[2];
  call.marks = marks;
  with_half_class(problem.q.dtype, std::max(p.dim, p.width), [&](auto type, auto size) {
    launch_backward<decltype(type), decltype(size)::value>(call, gradients);
  });
  return true;
}

}  // namespace attend::cuda
