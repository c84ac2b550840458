#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_common.h"
#include "backend/cuda/attention/tensor.h"

// The forward pass on Hopper, after FlashAttention-3 (Shah et al. 2024). A producer warp copies tiles of q, k and v
// into shared memory; each consumer warpgroup owns 64 queries. While one warpgroup computes its softmax, the tensor
// cores work for another, and within a warpgroup the scores of the next block of keys are computed during the softmax
// of this one. CTAs stay and take tiles of queries from a counter, longest first.
//
// A hidden key has weight 0, and 0 · NaN would leak. Blocks with an output that is not finite are marked for a kernel
// that skips hidden keys.
namespace attend::cuda {
namespace {

struct ForwardArguments {
  CUtensorMap q, k, v;
  void* y;
  float* lse;
  RowStrides y_strides, lse_strides;
  BlockMarks marks;
  const int64_t* lengths;
  VisibilityOptions visibility;
  float scale_log2;  ///< scale · log2 e: weights are powers of 2
  int heads, head_group, query_blocks, tiles;
  int section;  ///< heads (of all batch entries) whose tiles are mixed, so that their keys stay in the L2 cache
};

/// The next tile and the number of CTAs that have finished, both 0 between launches.
__device__ unsigned tile_counter[2];

struct Tile {
  int batch, head, first_query, keys;
};

__device__ __forceinline__ Tile tile_of(const ForwardArguments& args, int index, int rows) {
  const int per_section = args.section * args.query_blocks, section = index / per_section;
  const int rest = index - section * per_section, all = args.tiles / args.query_blocks;
  const int width = min(args.section, all - section * args.section);
  const int block = rest / width, slice = section * args.section + rest - block * width;
  Tile tile;
  tile.batch = slice / args.heads;
  tile.head = slice - tile.batch * args.heads;
  tile.first_query = (args.query_blocks - 1 - block) * rows;
  tile.keys = args.lengths != nullptr ? static_cast<int>(args.lengths[tile.batch]) : args.visibility.keys;
  return tile;
}

template <int kDim, int kKeys, int kGroups>
struct alignas(1024) ForwardShared {
  static constexpr int kRows = 64 * kGroups, kStages = 2;
  alignas(1024) uint16_t q[kRows * kDim];
  alignas(1024) uint16_t k[kStages][kKeys * kDim];
  alignas(1024) uint16_t v[kStages][kKeys * kDim];
  uint64_t q_full, q_empty;
  uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  Tile tile;  ///< batch −1: no more tiles
};

/// Blocks of keys [begin, end) that some query of the tile sees.
struct BlockRange {
  int begin, end;
};
template <int kKeys, int kRows>
__device__ __forceinline__ BlockRange blocks_of(const Visibility& visible, const Tile& tile, int queries) {
  const int begin = visible.begin(tile.first_query), end = visible.end(min(tile.first_query + kRows, queries) - 1);
  if (begin >= end) return {0, 0};
  return {begin / kKeys, (end + kKeys - 1) / kKeys};
}

template <int kDim, int kKeys, int kGroups>
__device__ __forceinline__ void produce(const ForwardArguments& args, ForwardShared<kDim, kKeys, kGroups>& shared) {
  using Shared = ForwardShared<kDim, kKeys, kGroups>;
  RingPosition<Shared::kStages> k_at, v_at;
  uint32_t q_parity = 0;
  const auto load = [&](void* to, const CUtensorMap& map, uint64_t* full, int bytes, int row, int head, int batch) {
    barrier_expect(full, bytes);
    copy_tile(to, map, full, row, head, batch);
  };
  constexpr int kBytes = kKeys * kDim * 2;
  while (true) {
    const int index = static_cast<int>(atomicAdd(&tile_counter[0], 1));
    if (index >= args.tiles) break;
    const Tile tile = tile_of(args, index, Shared::kRows);
    const int kv_head = tile.head / args.head_group;
    const BlockRange blocks =
        blocks_of<kKeys, Shared::kRows>(Visibility(args.visibility, tile.keys), tile, args.visibility.queries);
    const auto load_k = [&](int block) {
      barrier_wait(&shared.k_empty[k_at.stage], k_at.parity ^ 1);
      load(shared.k[k_at.stage], args.k, &shared.k_full[k_at.stage], kBytes, block * kKeys, kv_head, tile.batch);
      k_at.advance();
    };
    const auto load_v = [&](int block) {
      barrier_wait(&shared.v_empty[v_at.stage], v_at.parity ^ 1);
      load(shared.v[v_at.stage], args.v, &shared.v_full[v_at.stage], kBytes, block * kKeys, kv_head, tile.batch);
      v_at.advance();
    };
    if (blocks.begin < blocks.end) load_k(blocks.end - 1);
    barrier_wait(&shared.q_empty, q_parity ^ 1);
    shared.tile = tile;
    load(shared.q, args.q, &shared.q_full, Shared::kRows * kDim * 2, tile.first_query, tile.head, tile.batch);
    q_parity ^= 1;
    for (int block = blocks.end - 1; block > blocks.begin; --block) {
      load_k(block - 1);
      load_v(block);
    }
    if (blocks.begin < blocks.end) load_v(blocks.begin);
  }
  barrier_wait(&shared.q_empty, q_parity ^ 1);
  shared.tile.batch = -1;
  barrier_arrive(&shared.q_full);
  __threadfence();
  if (atomicAdd(&tile_counter[1], 1) == gridDim.x - 1) tile_counter[0] = tile_counter[1] = 0;
}

/// The running softmax of the two query rows of a thread.
struct RowState {
  float max = -INFINITY;  ///< of the unscaled scores
  float sum = 0;          ///< of this thread's columns
};

/// Replaces scores by weights 2^(scale (s − max)). Returns in `decay` the factors by which earlier sums shrink.
template <int kCount>
__device__ __forceinline__ void softmax_block(float (&s)[kCount], RowState (&rows)[2], float scale, float (&decay)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = rows[r].max;
#pragma unroll
    for (int i = 0; i < kCount; i += 4) top = fmaxf(top, fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    // A query that has seen no key yet has a maximum of −inf. Subtract 0 then, as −inf − (−inf) would be NaN.
    const float shift = top == -INFINITY ? 0.f : top * scale;
    decay[r] = exp2_fast(rows[r].max * scale - shift);
    rows[r].max = top;
    float sum = rows[r].sum * decay[r];
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      float& a = s[i + 2 * r];
      float& b = s[i + 2 * r + 1];
      a = exp2_fast(fmaf(a, scale, -shift));
      b = exp2_fast(fmaf(b, scale, -shift));
      sum += a + b;
    }
    rows[r].sum = sum;
  }
}

/// Hides the scores of keys outside of [begin, end), counted from the thread's first column.
template <int kCount>
__device__ __forceinline__ void hide(float (&s)[kCount], const int (&begin)[2], const int (&end)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const unsigned width = static_cast<unsigned>(max(end[r] - begin[r], 0));
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (static_cast<unsigned>(2 * i + c - begin[r]) >= width) s[i + 2 * r + c] = -INFINITY;
      }
    }
  }
}

template <class T, int kCount>
__device__ __forceinline__ void pack_weights(const float (&s)[kCount], uint32_t (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) p[i / 2] = pack<T>(s[i], s[i + 1]);
}

template <class T, int kDim, int kKeys, int kGroups>
__device__ __forceinline__ void consume(const ForwardArguments& args, ForwardShared<kDim, kKeys, kGroups>& shared) {
  using Shared = ForwardShared<kDim, kKeys, kGroups>;
  constexpr int kRows = Shared::kRows, kTurn = 2, kRound = 2 + kGroups;  // numbers of named barriers
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int row = 64 * group + 16 * warp + lane / 4;  // and row + 8
  const int turn = kTurn + group, next_turn = kTurn + (group + 1) % kGroups;
  RingPosition<Shared::kStages> k_at, v_at;
  uint32_t q_parity = 0;
  if (group == kGroups - 1) named_arrive(kTurn, 256);  // the first group begins

  float o[kDim / 2], s[kKeys / 2];
  uint32_t p[kKeys / 4];
  // scores = q · kᵀ
  const uint64_t q_tile = tile_descriptor(shared.q + 64 * group * 64);
  const auto start_scores = [&] {
    const uint64_t k_tile = tile_descriptor(shared.k[k_at.stage]);
    products_begin();
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      const int part = d / 64, bytes = d % 64 * 2;
      wgmma<T, kKeys, false, false>(s, advance(q_tile, part * kRows * 128 + bytes),
                                    advance(k_tile, part * kKeys * 128 + bytes), d > 0);
    }
    products_commit();
  };
  // output += weights · v
  const auto start_output = [&](bool accumulate) {
    const uint64_t v_tile = tile_descriptor(shared.v[v_at.stage], kKeys * 128);
    products_begin();
#pragma unroll
    for (int key = 0; key < kKeys; key += 16)
      wgmma<T, kDim, true>(o, p + key / 4, advance(v_tile, key * 128), accumulate || key > 0);
    products_commit();
  };
  const auto release = [&](uint64_t* barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };

  while (true) {
    barrier_wait(&shared.q_full, q_parity);
    q_parity ^= 1;
    const Tile tile = shared.tile;
    if (tile.batch < 0) break;
    const int queries = args.visibility.queries;
    const Visibility visible(args.visibility, tile.keys);
    const BlockRange blocks = blocks_of<kKeys, kRows>(visible, tile, queries);
    const int i = tile.first_query + row;
    int begin[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      begin[r] = visible.begin(i + 8 * r) - 2 * (lane % 4);
      end[r] = visible.end(i + 8 * r) - 2 * (lane % 4);
    }
    // Blocks [clear_begin, clear_end) are seen whole by every query of the tile.
    const int clear_begin = (visible.begin(min(tile.first_query + kRows, queries) - 1) + kKeys - 1) / kKeys;
    const int clear_end = visible.end(tile.first_query) / kKeys;
    const auto hide_block = [&](int block) {
      if (block >= clear_begin && block < clear_end) return;
      const int first = block * kKeys;
      const int from[2] = {begin[0] - first, begin[1] - first}, to[2] = {end[0] - first, end[1] - first};
      hide(s, from, to);
    };

    RowState rows[2];
    float decay[2];
    if (blocks.begin < blocks.end) {
      barrier_wait(&shared.k_full[k_at.stage], k_at.parity);
      named_sync(turn, 256);
      start_scores();
      named_arrive(next_turn, 256);
      products_wait<0>();
      pin(s);
      release(&shared.k_empty[k_at.stage]);
      k_at.advance();
      hide_block(blocks.end - 1);
      softmax_block(s, rows, args.scale_log2, decay);
      pack_weights<T>(s, p);
      bool accumulate = false;
#pragma unroll 1
      for (int block = blocks.end - 2; block >= blocks.begin; --block) {
        barrier_wait(&shared.k_full[k_at.stage], k_at.parity);
        named_sync(turn, 256);
        start_scores();
        barrier_wait(&shared.v_full[v_at.stage], v_at.parity);
        start_output(accumulate);
        accumulate = true;
        named_arrive(next_turn, 256);
        products_wait<1>();
        pin(s);
        release(&shared.k_empty[k_at.stage]);
        k_at.advance();
        hide_block(block);
        softmax_block(s, rows, args.scale_log2, decay);
        products_wait<0>();
        pin(o);
        pin(p);
        release(&shared.v_empty[v_at.stage]);
        v_at.advance();
#pragma unroll
        for (int n = 0; n < kDim / 2; n += 4) {
          o[n] *= decay[0];
          o[n + 1] *= decay[0];
          o[n + 2] *= decay[1];
          o[n + 3] *= decay[1];
        }
        pack_weights<T>(s, p);
      }
      barrier_wait(&shared.v_full[v_at.stage], v_at.parity);
      start_output(accumulate);
      products_wait<0>();
      pin(o);
      release(&shared.v_empty[v_at.stage]);
      v_at.advance();
    } else {
#pragma unroll
      for (int n = 0; n < kDim / 2; ++n) o[n] = 0;
    }

    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows[r].sum;
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      inverse[r] = sum == 0 ? 0.f : 1 / sum;
      if (lane % 4 == 0 && i + 8 * r < queries) {
        const RowStrides& step = args.lse_strides;
        args.lse[tile.batch * step.batch + tile.head * step.head + (i + 8 * r) * step.row] =
            sum == 0 ? -INFINITY : (rows[r].max * args.scale_log2 + log2f(sum)) * kLn2;
      }
    }
    // The output goes through this warp's rows of q, so that a row is written in pieces of 16 bytes.
    named_sync(kRound + group, 128);
    char* mine = reinterpret_cast<char*>(shared.q) + (64 * group + 16 * warp) * 128;
    constexpr int kPart = kRows * 128;
    float probe = 0;  // NaN if an output is not finite
#pragma unroll
    for (int n = 0; n < kDim / 2; ++n) probe = fmaf(o[n], 0, probe);
    const int first_row = tile.first_query + 64 * group + 16 * warp;
    if (args.marks.any != nullptr && !(probe == 0) && first_row < queries)
      args.marks.mark(int64_t{tile.batch} * args.heads + tile.head, first_row);
    const auto place = [](int r, int chunk) { return chunk / 8 * kPart + r * 128 + ((chunk % 8) ^ (r % 8)) * 16; };
#pragma unroll
    for (int j = 0; j < kDim / 8; j += 2) {
      const float* x = o + 4 * j;
      const uint32_t address = shared_address(mine) + place(lane % 16, j + lane / 16);
      store_matrices(address, pack<T>(x[0] * inverse[0], x[1] * inverse[0]),
                     pack<T>(x[2] * inverse[1], x[3] * inverse[1]), pack<T>(x[4] * inverse[0], x[5] * inverse[0]),
                     pack<T>(x[6] * inverse[1], x[7] * inverse[1]));
    }
    __syncwarp();
    T* y = static_cast<T*>(args.y) + tile.batch * args.y_strides.batch + tile.head * args.y_strides.head;
    constexpr int kChunks = kDim / 8;
#pragma unroll
    for (int n = 0; n < 16 * kChunks; n += 32) {
      const int r = (n + lane) / kChunks, chunk = (n + lane) % kChunks,
                query = tile.first_query + 64 * group + 16 * warp + r;
      const uint4 words = *reinterpret_cast<const uint4*>(mine + place(r, chunk));
      if (query < queries) *reinterpret_cast<uint4*>(y + query * args.y_strides.row + chunk * 8) = words;
    }
    fence_async();
    __syncwarp();
    release(&shared.q_empty);
  }
}

template <class T, int kDim, int kKeys, int kGroups>
__global__ void __launch_bounds__(128 * (kGroups + 1), 1)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  constexpr int kThreads = 128 * (kGroups + 1), kFew = kGroups == 2 ? 24 : 32, kMany = kGroups == 2 ? 240 : 160;
  static_assert(kFew + kGroups * kMany <= (kGroups + 1) * kLaunchRegisters<kThreads>);
  extern __shared__ char memory[];
  using Shared = ForwardShared<kDim, kKeys, kGroups>;
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    prefetch_map(args.q);
    prefetch_map(args.k);
    prefetch_map(args.v);
    barrier_init(&shared.q_full, 1);
    barrier_init(&shared.q_empty, 4 * kGroups);
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      barrier_init(&shared.k_full[stage], 1);
      barrier_init(&shared.v_full[stage], 1);
      barrier_init(&shared.k_empty[stage], 4 * kGroups);
      barrier_init(&shared.v_empty[stage], 4 * kGroups);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<kFew>();
    if (threadIdx.x == 0) produce(args, shared);
  } else {
    more_registers<kMany>();
    consume<T>(args, shared);
  }
}

template <class T, int kDim, int kKeys, int kGroups>
bool launch(const AttentionProblem& problem, View y, View lse) {
  using Shared = ForwardShared<kDim, kKeys, kGroups>;
  const auto q = tile_map(problem.q, Shared::kRows), k = tile_map(problem.k, kKeys), v = tile_map(problem.v, kKeys);
  if (!q || !k || !v) return false;
  const int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], group = heads / problem.k.shape[1];
  ForwardArguments args{.q = *q, .k = *k, .v = *v, .y = y.data, .lse = static_cast<float*>(lse.data)};
  args.y_strides = row_strides(y);
  args.lse_strides = row_strides(lse);
  args.lengths = static_cast<const int64_t*>(problem.lengths.data);
  args.visibility = visibility_options(problem);
  args.scale_log2 = static_cast<float>(problem.scale * double{kLog2E});
  args.heads = static_cast<int>(heads);
  args.head_group = static_cast<int>(group);
  args.query_blocks = (args.visibility.queries + Shared::kRows - 1) / Shared::kRows;
  args.tiles = static_cast<int>(args.query_blocks * heads * batch);
  constexpr int64_t kCacheBytes = int64_t{32} << 20;
  const int64_t fitting = kCacheBytes / (problem.k.shape[2] * kDim * 4) * group;
  args.section = static_cast<int>(std::clamp<int64_t>(fitting, group, heads * batch));
  const int rows = kForwardMarkRows, blocks = (args.visibility.queries + rows - 1) / rows;
  const int64_t marked = 1 + (batch * heads * blocks + 3) / 4;
  const bool hides_pairs = problem.causal || problem.window > 0 || problem.lengths;
  const Scratch<uint32_t> marks(hides_pairs ? marked : 0);
  if (hides_pairs) {
    check(cudaMemsetAsync(marks.data(), 0, static_cast<size_t>(marked) * 4, stream()), "attention.forward");
    args.marks = {marks.data(), reinterpret_cast<uint8_t*>(marks.data() + 1), rows, blocks};
  }
  const auto kernel = forward_kernel<T, kDim, kKeys, kGroups>;
  constexpr int kBytes = sizeof(Shared) + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "attention.forward");
  kernel<<<std::min(args.tiles, multiprocessors()), 128 * (kGroups + 1), kBytes, stream()>>>(args);
  check_launch("attention.forward");
  if (hides_pairs) tensor_forward(problem, y, lse, args.marks);
  return true;
}

template <class T>
bool launch_for(const AttentionProblem& problem, View y, View lse) {
  if (problem.q.shape[3] == 64) return launch<T, 64, 128, 3>(problem, y, lse);
  if (problem.causal || problem.window > 0) return launch<T, 128, 128, 2>(problem, y, lse);
  return launch<T, 128, 176, 2>(problem, y, lse);
}

}  // namespace

bool hopper_forward(const AttentionProblem& problem, View y, View lse) {
  if (!is_for_hopper(problem) || changes_scores(problem) || problem.q_offsets || lse.dtype != DType::f32) return false;
  const bool aligned = reinterpret_cast<uintptr_t>(y.data) % 16 == 0 && y.strides[0] % 8 == 0 &&
                       y.strides[1] % 8 == 0 && y.strides[2] % 8 == 0 && y.strides[3] == 1;
  if (!aligned || y.shape.numel() == 0 || problem.k.shape[2] == 0) return false;
  if (problem.q.dtype == DType::bf16) return launch_for<__nv_bfloat16>(problem, y, lse);
  return launch_for<__half>(problem, y, lse);
}

}  // namespace attend::cuda
