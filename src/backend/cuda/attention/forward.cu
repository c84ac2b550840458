#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/tile.cuh"
#include "backend/cuda/cuda.h"

// Forward pass (Dao et al. 2022): a CTA owns a block of queries of one head and goes through the keys they see. Between
// the two products, scores are in registers; with options that change scores, they make a detour through shared memory,
// where a loop handles four keys of a query at a time.
namespace attend::cuda {
namespace attention {
namespace {

/// Rows of queries and columns of keys per thread. Shared memory stays within 99 KiB, the least of any device.
template <class C, int D>
struct ForwardShape {
  static constexpr int kHalf = sizeof(C) == 8 ? 2 : 1;
  static constexpr int kRows = D == 64 || D == 128 ? 4 : 2 / kHalf;
  static constexpr int kColumns = D == 256 ? 4 / kHalf : 8 / kHalf;
  /// CTAs per multiprocessor. At head size 64, a third one hides the latency of shared memory.
  static constexpr int kTogether = D == 64 && kHalf == 1 ? 3 : 2;
};

template <class C, int D, int M>
struct ForwardTile {
  static constexpr int kColumns = ForwardShape<C, D>::kColumns;
  static constexpr int kQueries = M * kRowThreads, kKeys = kColumns * kColumnThreads;
  static constexpr bool kOneBuffer = D > 64;  ///< keys and values take turns in one tile
  static constexpr size_t kShared = sizeof(C) * (kQueries * D + (kOneBuffer ? 1 : 2) * kKeys * D + kQueries * kKeys);
};

struct ForwardCall {
  Problem p;
  Rows4 y;
  void* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  int blocks = 0;  ///< blocks of queries per batch entry
};

/// The running softmax of a thread's rows. Each thread sums its own columns; the eight sums are joined at the end.
template <class C, int M>
struct Softmax {
  C top[M], sum[M];

  __device__ Softmax() {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      top[m] = hidden_score<C>();
      sum[m] = 0;
    }
  }

  /// Replaces scores by e^(score − maximum). decay[m] is the factor by which the earlier sums of row m shrink.
  template <int N>
  __device__ __forceinline__ void update(C (&scores)[M][N], C (&decay)[M]) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      C most = top[m];
#pragma unroll
      for (int n = 0; n < N; ++n) most = max(most, scores[m][n]);
#pragma unroll
      for (int step = 1; step < kColumnThreads; step *= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
      // A query that has seen no key yet keeps a maximum of −inf. Subtract 0 then: −inf − 0 is −inf and not NaN.
      const C shift = most == hidden_score<C>() ? C{0} : most;
      decay[m] = weight_exp(top[m] - shift);
      top[m] = most;
      sum[m] = multiply_alone(sum[m], decay[m]);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        scores[m][n] = weight_exp(scores[m][n] - shift);
        sum[m] += scores[m][n];
      }
    }
  }

  __device__ __forceinline__ C total(int m) const {
    C all = sum[m];
#pragma unroll
    for (int step = 1; step < kColumnThreads; step *= 2) all += __shfl_xor_sync(~0u, all, step);
    return all;
  }
};

/// Replaces q · k by scores in the warp's rows of a tile whose first query and key are given.
template <int M, int kKeys, class C>
__device__ void finish_scores(const Scorer<C>& scorer, int first, int key, C* tile) {
  for_own_rows<M, kKeys>([&](int row, int column) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      C& s = tile[weight_index<C, kKeys>(row, column + e)];
      s = scorer.score(s, first + row, key + column + e);
    }
  });
}

/// Applies dropout to the warp's rows of a tile of weights.
template <int M, int kKeys, class C>
__device__ void drop_weights(const Scorer<C>& scorer, int first, int key, C* tile) {
  for_own_rows<M, kKeys>([&](int row, int column) {
    const uint32_t kept = scorer.kept_of_four(first + row, key + column);
#pragma unroll
    for (int e = 0; e < 4; ++e) tile[weight_index<C, kKeys>(row, column + e)] *= scorer.keep(kept, e);
  });
}

template <class C, int D, int M>
__global__ void __launch_bounds__(kThreads, ForwardShape<C, D>::kTogether)
    forward_kernel(const __grid_constant__ ForwardCall call) {
  using Tile = ForwardTile<C, D, M>;
  constexpr int kColumns = Tile::kColumns, kKeys = Tile::kKeys;
  const Problem& p = call.p;
  // The heads of a block follow each other. The last blocks, which see the most keys if causal, go first.
  const int head = static_cast<int>(blockIdx.x) % p.heads, rest = static_cast<int>(blockIdx.x) / p.heads;
  const Block block = query_block<kThreads>(p, rest % p.batch, Tile::kQueries, call.blocks - 1 - rest / p.batch);
  if (block.sequence < 0) return;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const int first = block.first, count = min(Tile::kQueries, sequence.queries - first), kv_head = head / p.group();
  const Scorer<C> scorer(p, sequence, head);

  extern __shared__ __align__(16) unsigned char memory[];
  C* queries = reinterpret_cast<C*>(memory);
  C* keys = queries + Tile::kQueries * D;
  C* values = Tile::kOneBuffer ? keys : keys + kKeys * D;
  C* weights = values + kKeys * D;

  const Range any = sequence.visible_to_any(first, first + count);
  const Range all = sequence.visible_to_all(first, first + count);
  const int begin = any.begin / kKeys * kKeys;
  const auto load_keys = [&](int key) {
    load_tile<kKeys, D>(keys, p.k, p.k.offset(sequence.batch, kv_head, sequence.k_begin + key), sequence.keys - key,
                        p.dim);
    commit_copies();
  };
  const auto load_values = [&](int key) {
    load_tile<kKeys, D>(values, p.v, p.v.offset(sequence.batch, kv_head, sequence.k_begin + key), sequence.keys - key,
                        p.width);
    commit_copies();
  };
  load_tile<Tile::kQueries, D>(queries, p.q, p.q.offset(sequence.batch, head, sequence.q_begin + first), count, p.dim);
  if (begin < any.end) load_keys(begin);

  Softmax<C, M> softmax;
  RowSums<C, M, D> output = {};
  for (int key = begin; key < any.end; key += kKeys) {
    wait_copies();
    __syncthreads();
    if (!Tile::kOneBuffer) load_values(key);
    C scores[M][kColumns];
    multiply_rows<D>(queries, keys, p.dim, scores);
    __syncthreads();
    if (Tile::kOneBuffer)
      load_values(key);
    else if (key + kKeys < any.end)
      load_keys(key + kKeys);

    const bool hides = p.hides_pairs() || key < all.begin || key + kKeys > all.end;
    if (hides || p.changes_scores()) {
      put_scores(weights, scores);
      __syncwarp();
      finish_scores<M, kKeys>(scorer, first, key, weights);
      __syncwarp();
      get_scores(weights, scores);
      __syncwarp();
    } else {
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) scores[m][n] = multiply_alone(scores[m][n], scorer.scale);
      }
    }
    C decay[M];
    softmax.update(scores, decay);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (auto& part : output[m]) {
#pragma unroll
        for (C& value : part) value = multiply_alone(value, decay[m]);
      }
    }
    put_scores(weights, scores);
    __syncwarp();
    if (p.drops) {
      drop_weights<M, kKeys>(scorer, first, key, weights);
      __syncwarp();
    }
    if (!Tile::kOneBuffer && key + kKeys < any.end)
      wait_copies<1>();
    else
      wait_copies();
    __syncthreads();
    if (hides && !__syncthreads_and(share_is_finite<kKeys, D>(values, p.width)))
      add_weighted<true, D, kKeys, M>(weights, values, output);
    else
      add_weighted<false, D, kKeys, M>(weights, values, output);
    if (Tile::kOneBuffer && key + kKeys < any.end) {
      __syncthreads();
      load_keys(key + kKeys);
    }
  }

  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const C total = softmax.total(m), factor = total == 0 ? C{0} : 1 / total;
#pragma unroll
    for (auto& part : output[m]) {
#pragma unroll
      for (C& value : part) value = multiply_alone(value, factor);
    }
    const int row = place.y + m * kRowThreads;
    if (place.x == 0 && row < count) {
      static_cast<C*>(call.lse)[sequence.batch * call.lse_batch + head * call.lse_head +
                                (sequence.q_begin + first + row) * call.lse_row] = softmax.top[m] + log(total);
    }
  }
  store_rows<D, M>(call.y, call.y.offset(sequence.batch, head, sequence.q_begin + first), count, p.width, C{1}, output);
}

template <class C, int D, int M>
void launch_forward(ForwardCall& call) {
  using Tile = ForwardTile<C, D, M>;
  call.blocks = static_cast<int>(query_blocks(call.p, Tile::kQueries));
  launch("attention.forward", forward_kernel<C, D, M>, int64_t{call.blocks} * call.p.heads * call.p.batch, kThreads,
         Tile::kShared, call);
}

}  // namespace
}  // namespace attention

void attention_forward(const AttentionProblem& problem, View y, View lse) {
  using namespace attention;
  Problem p = problem_of(problem);
  p.width = static_cast<int>(y.shape[3]);
  if (p.queries == 0 || p.batch == 0) return;
  constexpr int kFewQueries = 8, kShortCache = 512;
  const bool is_step = p.queries == 1 && p.lengths != nullptr;  // of generation, over the capacity of a cache
  if (problem.page_table) return decode(problem, p, y, lse);
  if (p.queries <= kFewQueries && (p.keys > kShortCache || is_step) && !problem.q_offsets && !problem.batch_invariant)
    return decode(problem, p, y, lse);
  if (hopper_forward(problem, y, lse) || tensor_forward(problem, y, lse)) return;
  ForwardCall call{p, rows_of(y), lse.data, lse.strides[0], lse.strides[1], lse.strides[2]};
  with_class(problem, std::max(p.dim, p.width), [&](auto type, auto size) {
    using C = decltype(type);
    constexpr int D = decltype(size)::value, kRows = ForwardShape<C, D>::kRows;
    // A tile of 16 queries gives the same bits.
    if (p.queries <= kRowThreads)
      launch_forward<C, D, 1>(call);
    else
      launch_forward<C, D, kRows>(call);
  });
}

}  // namespace attend::cuda
