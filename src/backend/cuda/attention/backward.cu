#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/tile.cuh"
#include "backend/cuda/cuda.h"

// Backward pass in two kernels, so that every gradient is summed by one CTA in a fixed order: dk and dv by a CTA for
// each block of keys, dq by one for each block of queries. Both recompute the weights from q, k and lse; together they
// take seven products instead of five.
namespace attend::cuda {
namespace attention {
namespace {

/// Rows that a CTA keeps (16 · kRows) and columns that pass by (8 · kColumns).
template <class C, int D>
struct BackwardTile {
  static constexpr bool kWide = sizeof(C) == 8;
  static constexpr int kRows = D == 64 ? (kWide ? 2 : 4) : D == 128 ? 2 : 1;
  static constexpr int kColumns = D == 64 ? (kWide ? 4 : 8) : D == 128 ? 4 : 2;
  static constexpr int kKept = kRows * kRowThreads, kPassing = kColumns * kColumnThreads;
  static constexpr size_t kShared =
      sizeof(C) * (2 * kKept * D + 2 * kPassing * D + 2 * kKept * kPassing + 2 * (kKept > kPassing ? kKept : kPassing));
};

struct BackwardCall {
  Problem p;
  Rows4 y, dy, dq, dk, dv;
  const void* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  void* delta = nullptr;  ///< [batch, heads, queries]: Σ dy · y
  int blocks = 0;         ///< blocks of keys per batch entry
  BiasGradient bias;
};

/// delta = Σ dy · y: a warp for each query.
template <class C>
__global__ void __launch_bounds__(kThreads) delta_kernel(const __grid_constant__ BackwardCall call, int64_t rows) {
  const Problem& p = call.p;
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int i = static_cast<int>(row % p.queries), h = static_cast<int>(row / p.queries % p.heads);
  const int b = static_cast<int>(row / p.queries / p.heads);
  const int64_t y = call.y.offset(b, h, i), dy = call.dy.offset(b, h, i);
  C sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < p.width; c += 32) {
    sum = fma(load<C>(call.y.data, y + c, call.y.dtype), load<C>(call.dy.data, dy + c, call.dy.dtype), sum);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) static_cast<C*>(call.delta)[row] = sum;
}

/// Loads lse and delta of `count` queries; the others get +inf and 0. A query that sees no key also gets +inf, so that
/// e^(score − lse) is 0.
template <int kQueries, class C>
__device__ void load_statistics(const BackwardCall& call, const Sequence& sequence, int head, int first, int count,
                                C* lse, C* delta) {
  for (int n = static_cast<int>(threadIdx.x); n < kQueries; n += kThreads) {
    const int64_t i = sequence.q_begin + first + n;
    const C value =
        n < count
            ? static_cast<const C*>(call.lse)[sequence.batch * call.lse_batch + head * call.lse_head + i * call.lse_row]
            : hidden_score<C>();
    lse[n] = value == hidden_score<C>() ? -hidden_score<C>() : value;
    delta[n] =
        n < count
            ? static_cast<const C*>(call.delta)[(int64_t{sequence.batch} * call.p.heads + head) * call.p.queries + i]
            : C{0};
  }
}

/// The weight that multiplied v, and the gradients of a score before and after softcap.
template <class C>
struct PairGradient {
  C weight, before, after;
};
template <class C>
__device__ PairGradient<C> pair_gradient(const Scorer<C>& scorer, C raw, C upstream, int i, int j, C lse, C delta,
                                         bool is_kept) {
  const C score = scorer.score(raw, i, j);
  if (score == hidden_score<C>()) return {0, 0, 0};
  const C weight = weight_exp(score - lse), kept = !scorer.p.drops ? C{1}
                                                   : is_kept       ? static_cast<C>(scorer.p.kept)
                                                                   : C{0};
  const C after = weight * (upstream * kept - delta);
  C before = after;
  if (scorer.p.softcap > 0) {
    const C t = scorer.capped(raw);
    before *= 1 - t * t;
  }
  return {weight * kept, before, after};
}

/// weights = e^(s − lse) and gradients = P ∘ (dP − delta), Dao et al. 2022 §B.2, where nothing is hidden and no option
/// is in use. kQueriesInRows: rows are queries, else columns are.
template <bool kQueriesInRows, int M, int N, class C>
__device__ __forceinline__ void plain_gradients(C scale, const C* lse, const C* delta, C (&scores)[M][N],
                                                C (&upstream)[M][N]) {
  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int query = kQueriesInRows ? place.y + m * kRowThreads : place.x + n * kColumnThreads;
      scores[m][n] = weight_exp(multiply_alone(scores[m][n], scale) - lse[query]);
      upstream[m][n] = scores[m][n] * (upstream[m][n] - delta[query]);
    }
  }
}

/// Whether [begin, end) of keys is seen by all queries of a range and no option changes scores or weights.
__device__ inline bool is_plain(const Problem& p, const Sequence& sequence, Range queries, Range keys) {
  const Range all = sequence.visible_to_all(queries.begin, queries.end);
  return !p.changes_scores() && !p.drops && keys.begin >= all.begin && keys.end <= all.end;
}

/// dk and dv of a block of keys of one key head: all query heads that share it, and all queries that see the keys.
template <class C, int D>
__global__ void __launch_bounds__(kThreads, 2) key_kernel(const __grid_constant__ BackwardCall call) {
  using Tile = BackwardTile<C, D>;
  constexpr int M = Tile::kRows, N = Tile::kColumns, kKept = Tile::kKept, kPassing = Tile::kPassing;
  const Problem& p = call.p;
  const int kv_head = static_cast<int>(blockIdx.x) % p.kv_heads, rest = static_cast<int>(blockIdx.x) / p.kv_heads;
  const Block block = key_block<kThreads>(p, rest % p.batch, kKept, rest / p.batch);
  if (block.sequence < 0) return;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const int first = block.first, count = min(kKept, sequence.keys - first), b = sequence.batch;

  extern __shared__ __align__(16) unsigned char memory[];
  C* keys = reinterpret_cast<C*>(memory);
  C* values = keys + kKept * D;
  C* queries = values + kKept * D;
  C* upstreams = queries + kPassing * D;
  C* weights = upstreams + kPassing * D;
  C* gradients = weights + kKept * kPassing;
  C* lse = gradients + kKept * kPassing;
  C* delta = lse + kPassing;

  RowSums<C, M, D> dk = {}, dv = {};
  load_tile<kKept, D>(keys, p.k, p.k.offset(b, kv_head, sequence.k_begin + first), count, p.dim);
  load_tile<kKept, D>(values, p.v, p.v.offset(b, kv_head, sequence.k_begin + first), count, p.width);
  const Range seeing = count > 0 ? sequence.queries_seeing(first, first + count) : Range{};
  for (int head = kv_head * p.group(); head < (kv_head + 1) * p.group(); ++head) {
    const Scorer<C> scorer(p, sequence, head);
    for (int query = seeing.begin / kPassing * kPassing; query < seeing.end; query += kPassing) {
      const int passing = min(kPassing, sequence.queries - query), row = sequence.q_begin + query;
      __syncthreads();
      load_tile<kPassing, D>(queries, p.q, p.q.offset(b, head, row), passing, p.dim);
      load_tile<kPassing, D>(upstreams, call.dy, call.dy.offset(b, head, row), passing, p.width);
      load_statistics<kPassing>(call, sequence, head, query, passing, lse, delta);
      commit_copies();
      wait_copies();
      __syncthreads();
      C scores[M][N], upstream[M][N];
      multiply_rows<D>(keys, queries, p.dim, scores);
      multiply_rows<D>(values, upstreams, p.width, upstream);
      const bool plain = is_plain(p, sequence, {query, query + passing}, {first, first + kKept});
      if (plain) plain_gradients<false>(scorer.scale, lse, delta, scores, upstream);
      put_scores(weights, scores);
      put_scores(gradients, upstream);
      __syncwarp();
      if (!plain) {
        for_own_columns<M, kPassing>([&](int key, int column) {
          const int i = query + column;
          const uint32_t kept = p.drops ? scorer.kept_of_four(i, first + key) : 0;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            C& weight = weights[weight_index<C, kPassing>(key + e, column)];
            C& gradient = gradients[weight_index<C, kPassing>(key + e, column)];
            const PairGradient<C> result = pair_gradient(scorer, weight, gradient, i, first + key + e, lse[column],
                                                         delta[column], (kept >> e & 1) != 0);
            weight = result.weight;
            gradient = result.before;
          }
        });
        __syncwarp();
      }
      const bool careful = !plain && !__syncthreads_and(share_is_finite<kPassing, D>(queries, p.dim) &&
                                                        share_is_finite<kPassing, D>(upstreams, p.width));
      if (careful) {
        add_weighted<true, D, kPassing, M>(weights, upstreams, dv);
        add_weighted<true, D, kPassing, M>(gradients, queries, dk);
      } else {
        add_weighted<false, D, kPassing, M>(weights, upstreams, dv);
        add_weighted<false, D, kPassing, M>(gradients, queries, dk);
      }
    }
  }
  // Keys beyond the sequence's length have gradients of 0.
  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (place.y + m * kRowThreads < count) continue;
#pragma unroll
    for (int n = 0; n < D / kChunk<C> / kColumnThreads; ++n) {
#pragma unroll
      for (int i = 0; i < kChunk<C>; ++i) dk[m][n][i] = dv[m][n][i] = 0;
    }
  }
  const int present = p.k_offsets != nullptr ? count : min(kKept, p.keys - first), row = sequence.k_begin + first;
  if (call.dk.data != nullptr)
    store_rows<D, M>(call.dk, call.dk.offset(b, kv_head, row), present, p.dim, static_cast<C>(p.scale), dk);
  if (call.dv.data != nullptr) store_rows<D, M>(call.dv, call.dv.offset(b, kv_head, row), present, p.width, C{1}, dv);
}

/// Adds a tile of score gradients [rows, columns] to dbias, whose element [0, 0] is at `offset`. The sums over axes
/// that share an element run in the order of the rows and columns.
template <int kRows, int kColumns, class C>
__device__ void add_bias_gradients(const BackwardCall& call, int64_t offset, int rows, int columns, const C* tile) {
  const Pairs& out = call.bias.out;
  const auto add = [&](int64_t at, C sum) { call.bias.add(at, sum); };
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (out.row == 0 && out.key == 0) {
    C sum = 0;
    for (int n = 0; thread == 0 && n < rows * columns; ++n)
      sum += tile[weight_index<C, kColumns>(n / columns, n % columns)];
    if (thread == 0) add(offset, sum);
  } else if (out.row == 0) {
    C sum = 0;
    for (int row = 0; thread < columns && row < rows; ++row) sum += tile[weight_index<C, kColumns>(row, thread)];
    if (thread < columns) add(offset + thread * out.key, sum);
  } else if (out.key == 0) {
    C sum = 0;
    for (int column = 0; thread < rows && column < columns; ++column)
      sum += tile[weight_index<C, kColumns>(thread, column)];
    if (thread < rows) add(offset + thread * out.row, sum);
  } else {
    for (int n = thread; n < kRows * kColumns; n += kThreads) {
      const int row = n / kColumns, column = n % kColumns;
      if (row < rows && column < columns)
        add(offset + row * out.row + column * out.key, tile[weight_index<C, kColumns>(row, column)]);
    }
  }
}

/// dq of a block of queries of one head, and its part of dbias.
template <class C, int D>
__device__ void query_gradients(const BackwardCall& call, const Block& block, int head, int part,
                                unsigned char* memory) {
  using Tile = BackwardTile<C, D>;
  constexpr int M = Tile::kRows, N = Tile::kColumns, kKept = Tile::kKept, kPassing = Tile::kPassing;
  const Problem& p = call.p;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const int first = block.first, count = min(kKept, sequence.queries - first), b = sequence.batch;
  const int kv_head = head / p.group(), row = sequence.q_begin + first;
  const Scorer<C> scorer(p, sequence, head);
  C* queries = reinterpret_cast<C*>(memory);
  C* upstreams = queries + kKept * D;
  C* keys = upstreams + kKept * D;
  C* values = keys + kPassing * D;
  C* weights = values + kPassing * D;  // the gradients after softcap, which are those of the bias
  C* gradients = weights + kKept * kPassing;
  C* lse = gradients + kKept * kPassing;
  C* delta = lse + kKept;

  __syncthreads();
  load_tile<kKept, D>(queries, p.q, p.q.offset(b, head, row), count, p.dim);
  load_tile<kKept, D>(upstreams, call.dy, call.dy.offset(b, head, row), count, p.width);
  load_statistics<kKept>(call, sequence, head, first, count, lse, delta);
  RowSums<C, M, D> dq = {};
  const Range any = sequence.visible_to_any(first, first + count);
  for (int key = any.begin / kPassing * kPassing; key < any.end; key += kPassing) {
    const int passing = min(kPassing, sequence.keys - key);
    __syncthreads();
    load_tile<kPassing, D>(keys, p.k, p.k.offset(b, kv_head, sequence.k_begin + key), passing, p.dim);
    load_tile<kPassing, D>(values, p.v, p.v.offset(b, kv_head, sequence.k_begin + key), passing, p.width);
    commit_copies();
    wait_copies();
    __syncthreads();
    C scores[M][N], upstream[M][N];
    multiply_rows<D>(queries, keys, p.dim, scores);
    multiply_rows<D>(upstreams, values, p.width, upstream);
    const bool plain =
        call.bias.out.data == nullptr && is_plain(p, sequence, {first, first + count}, {key, key + kPassing});
    if (plain)
      plain_gradients<true>(scorer.scale, lse, delta, scores, upstream);
    else
      put_scores(weights, scores);
    put_scores(gradients, upstream);
    __syncwarp();
    if (!plain) {
      for_own_rows<M, kPassing>([&](int query, int column) {
        const int i = first + query;
        const uint32_t kept = p.drops ? scorer.kept_of_four(i, key + column) : 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          C& weight = weights[weight_index<C, kPassing>(query, column + e)];
          C& gradient = gradients[weight_index<C, kPassing>(query, column + e)];
          const PairGradient<C> result = pair_gradient(scorer, weight, gradient, i, key + column + e, lse[query],
                                                       delta[query], (kept >> e & 1) != 0);
          weight = result.after;
          gradient = result.before;
        }
      });
      __syncwarp();
    }
    if (call.bias.out.data != nullptr) {
      const int64_t offset = part * call.bias.part_size + call.bias.out.offset(b, head, row, sequence.k_begin + key);
      add_bias_gradients<kKept, kPassing>(call, offset, count, passing, weights);
    }
    if (!plain && !__syncthreads_and(share_is_finite<kPassing, D>(keys, p.dim)))
      add_weighted<true, D, kPassing, M>(gradients, keys, dq);
    else
      add_weighted<false, D, kPassing, M>(gradients, keys, dq);
  }
  if (call.dq.data != nullptr)
    store_rows<D, M>(call.dq, call.dq.offset(b, head, row), count, p.dim, static_cast<C>(p.scale), dq);
}

/// A CTA takes one block of queries of one head, or in turn all those that add to the same elements of dbias.
template <class C, int D>
__global__ void __launch_bounds__(kThreads, 2) query_kernel(const __grid_constant__ BackwardCall call) {
  extern __shared__ __align__(16) unsigned char memory[];
  for_query_blocks<kThreads>(
      call.p, call.bias, BackwardTile<C, D>::kKept, static_cast<int>(blockIdx.x),
      [&](const Block& block, int head, int part) { query_gradients<C, D>(call, block, head, part, memory); });
}

template <class C, int D>
void launch_backward(BackwardCall& call, const AttentionGradients& gradients) {
  using Tile = BackwardTile<C, D>;
  const Problem& p = call.p;
  const int64_t rows = int64_t{p.batch} * p.heads * p.queries;
  const Scratch<C> delta(rows);
  call.delta = delta.data();
  launch("attention.backward", delta_kernel<C>, (rows + kThreads / 32 - 1) / (kThreads / 32), kThreads, 0, call, rows);
  if (gradients.dk || gradients.dv) {
    call.blocks = static_cast<int>(key_blocks(p, Tile::kKept));
    launch("attention.backward", key_kernel<C, D>, int64_t{call.blocks} * p.kv_heads * p.batch, kThreads, Tile::kShared,
           call);
  }
  if (!gradients.dq && !gradients.dbias) return;
  with_bias_gradient<C>(p, gradients.dbias, Tile::kKept, [&](const BiasGradient& bias) {
    call.bias = bias;
    launch("attention.backward", query_kernel<C, D>, bias.ctas(p), kThreads, Tile::kShared, call);
  });
}

}  // namespace
}  // namespace attention

void attention_backward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  using namespace attention;
  if (hopper_backward(problem, gradients) || tensor_backward(problem, gradients)) return;
  BackwardCall call;
  call.p = problem_of(problem);
  call.p.width = static_cast<int>(gradients.dy.shape[3]);
  call.y = rows_of(gradients.y);
  call.dy = rows_of(gradients.dy);
  if (gradients.dq) call.dq = rows_of(gradients.dq);
  if (gradients.dk) call.dk = rows_of(gradients.dk);
  if (gradients.dv) call.dv = rows_of(gradients.dv);
  call.lse = gradients.lse.data;
  call.lse_batch = gradients.lse.strides[0];
  call.lse_head = gradients.lse.strides[1];
  call.lse_row = gradients.lse.strides[2];
  with_class(problem, std::max(call.p.dim, call.p.width),
             [&](auto type, auto size) { launch_backward<decltype(type), decltype(size)::value>(call, gradients); });
}

}  // namespace attend::cuda
