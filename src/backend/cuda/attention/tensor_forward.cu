#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/tensor_score.cuh"

// Forward pass after FlashAttention-2 (Dao 2023): a CTA owns a block of queries of one head, a warp 16 or 32 of them.
// Blocks of keys and values pass through two buffers. Scores and weights stay in registers. The bits of a query's
// output do not depend on its place in the block or on the block's size.
namespace attend::cuda {
namespace attention {
namespace {

/// kShort: for few queries and at most 32 keys, with the same sums; more CTAs fit.
template <int D, bool kShort>
struct ForwardTile {
  static constexpr int kTiles = D <= 128 && !kShort ? 2 : 1;  ///< of 16 queries for each warp
  static constexpr int kRows = 16 * kTiles, kQueries = kTensorWarps * kRows;
  static constexpr int kKeys = D <= 128 && !kShort ? 64 : 32;
  static constexpr int kTogether = kShort ? 5 : D <= 64 ? 3 : 2;  ///< CTAs per multiprocessor
  static constexpr size_t kShared = 2 * (kQueries + 4 * kKeys) * D;
};

struct ForwardCall {
  HalfProblem half;
  HalfRows y;
  float* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  int blocks = 0;      ///< blocks of queries per batch entry
  unsigned tasks = 0;  ///< blocks of all heads and batch entries
  BlockMarks marks;
};

/// The running softmax of a thread's rows. Each thread sums its own columns; the four sums are joined at the end.
template <int M>
struct Softmax {
  float top[M][2], sum[M][2];

  __device__ Softmax() {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      top[m][0] = top[m][1] = -INFINITY;
      sum[m][0] = sum[m][1] = 0;
    }
  }

  /// The exponent of 2 that is subtracted. A query that has seen no key yet has a maximum of −inf. Subtract 0 then:
  /// −inf − 0 is −inf and not NaN.
  static __device__ __forceinline__ float shift(float most, float factor) {
    return most == -INFINITY ? 0.f : __fmul_rn(most, factor);
  }

  /// Replaces scores by 2^(factor · (score − maximum)), and shrinks earlier sums to the new maximum.
  template <int N, int kOutputs>
  __device__ __forceinline__ void update(float factor, Products<M, N>& scores, Products<M, kOutputs>& output) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = top[m][r];
#pragma unroll
        for (int n = 0; n < N; ++n) most = fmaxf(most, fmaxf(scores[m][n][2 * r], scores[m][n][2 * r + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float subtracted = shift(most, factor);
        const float decay = exp2_fast(__fmul_rn(top[m][r], factor) - subtracted);
        top[m][r] = most;
        float added = 0;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int e = 2 * r; e < 2 * r + 2; ++e) {
            scores[m][n][e] = exp2_fast(fmaf(scores[m][n][e], factor, -subtracted));
            added += scores[m][n][e];
          }
        }
        sum[m][r] = fmaf(sum[m][r], decay, added);
#pragma unroll
        for (auto& tile : output[m]) {
          tile[2 * r] *= decay;
          tile[2 * r + 1] *= decay;
        }
      }
    }
  }

  __device__ __forceinline__ float total(int m, int r) const {
    const float pair = sum[m][r] + __shfl_xor_sync(~0u, sum[m][r], 1);
    return pair + __shfl_xor_sync(~0u, pair, 2);
  }
};

/// A block of queries of one head.
template <class T, int D, bool kShort>
__device__ __forceinline__ void forward_block(const ForwardCall& call, int task, uint16_t* memory) {
  using Tile = ForwardTile<D, kShort>;
  constexpr int M = Tile::kTiles, N = Tile::kKeys / 8, kKeys = Tile::kKeys, kQueries = Tile::kQueries;
  const Problem& p = call.half.p;
  // The heads of a block follow each other. The last blocks, which see the most keys if causal, go first.
  const int head = task % p.heads, rest = task / p.heads;
  const Block block = query_block<kTensorThreads>(p, rest % p.batch, kQueries, call.blocks - 1 - rest / p.batch);
  if (block.sequence < 0) return;
  const Sequence sequence = Sequence::of(p, block.sequence);
  const int marked =
      p.q_offsets != nullptr ? call.marks.packed_row(sequence.q_begin, block.sequence, block.first) : block.first;
  if (call.marks.skips(sequence.batch * p.heads + head, marked)) return;
  const int first = block.first, count = min(kQueries, sequence.queries - first), kv_head = head / p.group();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;

  uint16_t* queries = memory;
  uint16_t* buffers = queries + kQueries * D;  // two of keys and values
  uint16_t* own = queries + warp * Tile::kRows * D;

  const Range any = sequence.visible_to_any(first, first + count);
  const Range all = sequence.visible_to_all(first, first + count);
  const int begin = any.begin / kKeys * kKeys;
  const auto load_block = [&](int key, uint16_t* to) {
    const int row = sequence.k_begin + key, left = sequence.keys - key;
    load_half_tile<kKeys, D>(to, call.half.k, call.half.k.at(sequence.batch, kv_head, row), left, p.dim);
    load_half_tile<kKeys, D>(to + kKeys * D, call.half.v, call.half.v.at(sequence.batch, kv_head, row), left, p.width);
  };
  __syncthreads();
  load_half_tile<kQueries, D>(queries, call.half.q, call.half.q.at(sequence.batch, head, sequence.q_begin + first),
                              count, p.dim);
  if (begin < any.end) load_block(begin, buffers);
  commit_copies();

  // The warp's own rows, and the keys that they see.
  const int own_first = first + warp * Tile::kRows, own_count = min(Tile::kRows, first + count - own_first);
  const Range own_any = own_count > 0 ? sequence.visible_to_any(own_first, own_first + own_count) : Range{};
  const Range own_all = own_count > 0 ? sequence.visible_to_all(own_first, own_first + own_count) : Range{};
  const float factor = call.half.factor();
  Softmax<M> softmax;
  Products<M, D / 8> output = {};
  for (int key = begin, stage = 0; key < any.end; key += kKeys, stage ^= 1) {
    wait_copies();
    __syncthreads();
    uint16_t *keys = buffers + stage * 2 * kKeys * D, *values = keys + kKeys * D;
    if (key + kKeys < any.end) {
      load_block(key + kKeys, buffers + (stage ^ 1) * 2 * kKeys * D);
      commit_copies();
    }
    const bool hides = p.hides_pairs() || key < all.begin || key + kKeys > all.end;
    const bool unusual = hides && __syncthreads_or(!half_share_is_finite<T, kKeys, D>(values)) != 0;
    const bool busy = key < own_any.end && key + kKeys > own_any.begin;
    if (!busy && !unusual) continue;
    Weights<M, kKeys> weights = {};
    if (busy) {
      Products<M, N> scores;
      multiply_tiles<T, D>(own, keys, p.dim, scores);
      const Pairing<T, false, M, N> pairs(call.half, sequence, head, own_first + lane / 4, key + lane % 4 * 2);
      if (call.half.scored)
        pairs.finish(scores);
      else if (key < own_all.begin || key + kKeys > own_all.end)
        pairs.hide(scores);
      softmax.update(factor, scores, output);
      if (p.drops) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
          const uint32_t kept = pairs.kept_bits(m);
#pragma unroll
          for (int n = 0; n < 4 * N; ++n)
            scores[m][n / 4][n % 4] = (kept >> n & 1) != 0 ? scores[m][n / 4][n % 4] : 0.f;
        }
      }
      pack_weights<T>(scores, weights);
    }
    if (unusual) add_unusual_rows<T, D, kKeys>(weights, values, output);
    add_tiles<T, D, kKeys>(weights, values, p.width, output);
  }
  wait_copies();
  __syncthreads();

  float factors[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = softmax.total(m, r);
      factors[m][r] = total == 0 ? 0.f : static_cast<float>(p.kept) / total;
      const int row = 16 * m + 8 * r + lane / 4;
      if (lane % 4 == 0 && row < own_count) {
        call.lse[sequence.batch * call.lse_batch + head * call.lse_head +
                 (sequence.q_begin + own_first + row) * call.lse_row] =
            fmaf(softmax.shift(softmax.top[m][r], factor), kLn2, logf(total));
      }
    }
  }
  store_half_rows<T, D, M>(own, call.y, call.y.at(sequence.batch, head, sequence.q_begin + own_first), own_count,
                           p.width, factors, output);
}

template <class T, int D, bool kShort>
__global__ void __launch_bounds__(kTensorThreads, ForwardTile<D, kShort>::kTogether)
    tensor_forward_kernel(const __grid_constant__ ForwardCall call) {
  extern __shared__ __align__(128) uint16_t memory[];
  if (call.marks.skips_all()) return;
  for (unsigned task = blockIdx.x; task < call.tasks; task += gridDim.x)
    forward_block<T, D, kShort>(call, static_cast<int>(task), memory);
}

}  // namespace
}  // namespace attention

bool tensor_forward(const AttentionProblem& problem, View y, View lse, const BlockMarks& marks) {
  using namespace attention;
  if (problem.q.dtype != DType::bf16 && problem.q.dtype != DType::f16) return false;
  if (architecture() < 80 || problem.q.shape[3] == 0 || y.shape[3] == 0) return false;
  ForwardCall call{half_problem_of(problem), half_rows_of(y)};
  Problem& p = call.half.p;
  p.width = static_cast<int>(y.shape[3]);
  call.lse = static_cast<float*>(lse.data);
  call.lse_batch = lse.strides[0];
  call.lse_head = lse.strides[1];
  call.lse_row = lse.strides[2];
  call.marks = marks;
  with_half_class(problem.q.dtype, std::max(p.dim, p.width), [&](auto type, auto size) {
    constexpr int D = decltype(size)::value;
    static_assert(D > 128 || ForwardTile<D, false>::kQueries == kForwardMarkRows);
    const auto run = [&](auto is_short) {
      constexpr bool kShort = decltype(is_short)::value;
      using Tile = ForwardTile<D, kShort>;
      call.blocks = static_cast<int>(query_blocks(p, Tile::kQueries));
      call.tasks = static_cast<unsigned>(int64_t{call.blocks} * p.heads * p.batch);
      launch("attention.forward", tensor_forward_kernel<decltype(type), D, kShort>,
             marks.ctas(call.tasks, 2 * multiprocessors()), kTensorThreads, Tile::kShared, call);
    };
    if constexpr (D == 64) {
      if (p.queries <= 64 && p.keys <= 32 && marks.any == nullptr) return run(std::true_type{});
    }
    run(std::false_type{});
  });
  return true;
}

}  // namespace attend::cuda
