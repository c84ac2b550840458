#pragma once

#include "backend/cuda/attention/hopper_forward_tiles.cuh"

// The warpgroups of the forward pass on Hopper that compute, and its kernel.
namespace attend::cuda {
namespace {

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
  // Bit 2 n + c of a word belongs to column 8 n + c. The number of a thread's columns below x is the number of bits.
  const auto below = [](int x) {
    const int columns = min(max(x, 0), 128), bits = columns / 8 * 2 + min(columns % 8, 2);
    return bits == 32 ? 0xffffffffu : (1u << bits) - 1;
  };
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int first = 0; first < kCount; first += 64) {
      const uint32_t seen = below(end[r] - 2 * first) & ~below(begin[r] - 2 * first);
#pragma unroll
      for (int i = first; i < min(first + 64, kCount); i += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if ((seen >> ((i - first) / 2 + c) & 1) == 0) s[i + 2 * r + c] = -INFINITY;
        }
      }
    }
  }
}

template <class T, int kCount>
__device__ __forceinline__ void pack_weights(const float (&s)[kCount], uint32_t (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) p[i / 2] = pack<T>(s[i], s[i + 1]);
}

/// Writes the output and the log-sum-exp of a warp's 16 queries, from `warp_row` of the tile on. `mine`: the warp's
/// rows of q in shared memory, through which the output goes, so that a row is written in pieces of 16 bytes. kPart:
/// bytes of a 64-column part of q.
template <class T, int kDim, int kPart>
__device__ __forceinline__ void write_rows(const ForwardArguments& args, const Tile& tile, int warp_row,
                                           const RowState (&rows)[2], const float (&o)[kDim / 2], char* mine) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first = tile.first_query + warp_row, i = first + lane / 4;
  float inverse[2];
  bool is_finite = true;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows[r].sum;
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    inverse[r] = sum == 0 ? 0.f : args.score.drop.kept / sum;
    const bool exists = i + 8 * r < tile.queries;
    if (lane % 4 == 0 && exists) {
      const RowStrides& step = args.lse_strides;
      args.lse[tile.batch * step.batch + tile.head * step.head + (tile.q_begin + i + 8 * r) * step.row] =
          sum == 0 ? -INFINITY : (rows[r].max * args.factor + log2f(sum)) * kLn2;
    }
    float probe = 0;  // NaN if an output is not finite
#pragma unroll
    for (int n = 0; n < kDim / 2; n += 4) probe = fmaf(o[n + 2 * r], 0, fmaf(o[n + 2 * r + 1], 0, probe));
    is_finite = is_finite && (!exists || probe == 0);
  }
  if (args.marks.any != nullptr && !is_finite) {
    args.marks.mark(int64_t{tile.batch} * args.heads + tile.head,
                    args.q_offsets != nullptr ? args.marks.packed_row(tile.q_begin, tile.sequence, first) : first);
  }
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
  T* y = static_cast<T*>(args.y) + tile.batch * args.y_strides.batch + tile.head * args.y_strides.head +
         (tile.q_begin + first) * args.y_strides.row;
  constexpr int kChunks = kDim / 8;
#pragma unroll
  for (int n = 0; n < 16 * kChunks; n += 32) {
    const int r = (n + lane) / kChunks, chunk = (n + lane) % kChunks;
    const uint4 words = *reinterpret_cast<const uint4*>(mine + place(r, chunk));
    if (first + r < tile.queries) *reinterpret_cast<uint4*>(y + r * args.y_strides.row + chunk * 8) = words;
  }
}

/// The options of a kernel: known when it is compiled, or kAnyOption.
template <int kOptions>
__device__ __forceinline__ bool has(const ForwardArguments& args, int option) {
  return kOptions == kAnyOption ? (args.options & option) != 0 : (kOptions & option) != 0;
}

/// What the options need to know of a thread's first query.
struct QueryOptions {
  float slope;      ///< of ALiBi
  uint64_t row;     ///< number of the query over batch, heads and queries, for dropout
  uint64_t stream;  ///< of dropout

  template <class T, int kOptions>
  static __device__ __forceinline__ QueryOptions of(const ForwardArguments& args, const Tile& tile, int i) {
    QueryOptions query{};
    if (has<kOptions>(args, kAlibi)) query.slope = slope_of<T>(args.score, tile.head);
    if (has<kOptions>(args, kDropout)) {
      query.row =
          static_cast<uint64_t>(tile.batch * args.heads + tile.head) * static_cast<uint64_t>(args.visibility.queries) +
          static_cast<uint64_t>(tile.q_begin + i);
      query.stream = settled_stream(args.score.drop);
    }
    return query;
  }
};

/// The steps of hopper_score.cuh on the scores of a thread's queries and the 128 keys from `key` on. `position`: of the
/// thread's first query.
template <class T, int kOptions, class Shared>
__device__ __forceinline__ void change_scores(const ForwardArguments& args, Shared& shared, const QueryOptions& query,
                                              int position, int key, StageCount<Shared::Pairs::kStages>& pair_at,
                                              float (&s)[64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, group = threadIdx.x / 128 - 1, row = threadIdx.x / 32 % 4 * 16;
  float scale = args.score.scale;
  if (has<kOptions>(args, kOddScale) && !has<kOptions>(args, kSoftcap | kAlibi | kBias)) scale_scores(s, scale);
  if (has<kOptions>(args, kSoftcap)) {
    cap_scores(s, args.score.cap);
    scale = 1;
  }
  if (has<kOptions>(args, kAlibi)) {
    if (!has<kOptions>(args, kSoftcap)) scale_scores(s, scale);
    scale = 1;
    subtract_distances<false>(s, query.slope, position - key - lane % 4 * 2);
  }
  if constexpr (Shared::kHasPairs) {
    if (!has<kOptions>(args, kBias | kMask)) return;
    const uint32_t stage = pair_at.stage();
    barrier_wait(&shared.pairs.full[stage][group], pair_at.parity());
    if (has<kOptions>(args, kBias)) add_bias<T, false>(s, scale, shared.pairs.bias(stage, group), row);
    if (has<kOptions>(args, kMask)) hide_masked<false>(s, shared.pairs.mask(stage, group), row);
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.pairs.empty[stage][group]);
    pair_at.advance();
  }
}

template <class T, int kDim, int kKeys, int kGroups, int kOptions, class Shared>
__device__ __forceinline__ void consume(const ForwardArguments& args, Shared& shared) {
  constexpr bool kDrops = (kOptions & kDropout) != 0;
  constexpr int kRows = Shared::kRows, kTurn = 2, kRound = 2 + kGroups;  // numbers of named barriers
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int turn = kTurn + group, next_turn = kTurn + (group + 1) % kGroups;
  StageCount<Shared::kStages> k_at, v_at;
  StageCount<Shared::Pairs::kStages> pair_at;
  uint32_t q_parity = 0;
  if (group == kGroups - 1) named_arrive(kTurn, 256);  // the first group begins

  float o[kDim / 2], s[kKeys / 2];
  uint32_t p[kKeys / 4];
  // scores = q · kᵀ
  const uint64_t q_tile = tile_descriptor(shared.q + 64 * group * 64);
  const auto start_scores = [&] {
    const uint64_t k_tile = tile_descriptor(shared.k[k_at.stage()]);
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
  const auto start_output = [&] {
    const uint64_t v_tile = tile_descriptor(shared.v[v_at.stage()], kKeys * 128);
    products_begin();
#pragma unroll
    for (int key = 0; key < kKeys; key += 16) wgmma<T, kDim, true>(o, p + key / 4, advance(v_tile, key * 128), 1);
    products_commit();
  };
  const auto release = [&](uint64_t* barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };
  const auto release_k = [&] {
    release(&shared.k_empty[k_at.stage()]);
    k_at.advance();
  };
  const auto release_v = [&] {
    release(&shared.v_empty[v_at.stage()]);
    v_at.advance();
  };
  // A block that the other warpgroups use, but this one does not.
  const auto skip_block = [&] {
    barrier_wait(&shared.k_full[k_at.stage()], k_at.parity());
    named_sync(turn, 256);
    named_arrive(next_turn, 256);
    release_k();
    barrier_wait(&shared.v_full[v_at.stage()], v_at.parity());
    release_v();
  };

  while (true) {
    barrier_wait(&shared.q_full, q_parity);
    q_parity ^= 1;
    const Tile tile = read_tile(shared.tile, lane);
    if (tile.batch < 0) break;
    const Visibility visible = tile.visibility(args);
    const BlockRange blocks = blocks_of<kKeys>(visible, tile.queries, tile.first_query, kRows);
    const int group_first = tile.first_query + 64 * group, first = group_first + 16 * warp, i = first + lane / 4;
    BlockRange own = blocks_of<kKeys>(visible, tile.queries, group_first, 64);
    if (own.begin == own.end) own = {blocks.end, blocks.end};
    const auto query = QueryOptions::of<T, kOptions>(args, tile, i);
    const auto finish_scores = [&](int block) {
      if constexpr (kOptions != 0)
        change_scores<T, kOptions>(args, shared, query, i + visible.shift, block * kKeys, pair_at, s);
      const int key = block * kKeys, column = key + 2 * (lane % 4);
      if (key >= visible.begin(first + 15) && key + kKeys <= visible.end(first)) return;  // all see the whole block
      const int begin[2] = {visible.begin(i) - column, visible.begin(i + 8) - column};
      const int end[2] = {visible.end(i) - column, visible.end(i + 8) - column};
      hide(s, begin, end);
    };
    // Random numbers are drawn while the tensor cores work.
    uint32_t kept[2] = {};
    const auto draw = [&](int block) {
      if constexpr (kDrops) {
        if (!has<kOptions>(args, kDropout)) return;
        kept_bits<false, 64>(args.score.drop, query.stream, query.row, block * kKeys + lane % 4 * 2, kept);
        pin(kept);
      }
    };
    const auto pack_block = [&] {
      pack_weights<T>(s, p);
      if constexpr (kDrops) {
        if (!has<kOptions>(args, kDropout)) return;
#pragma unroll
        for (int n = 0; n < kKeys / 4; ++n) p[n] = drop_pair(p[n], kept, 2 * n);
      }
    };

    RowState rows[2];
    float decay[2];
#pragma unroll
    for (float& x : o) x = 0;
#pragma unroll 1
    for (int block = blocks.end; block > own.end; --block) skip_block();
    if (own.begin < own.end) {
      barrier_wait(&shared.k_full[k_at.stage()], k_at.parity());
      named_sync(turn, 256);
      start_scores();
      named_arrive(next_turn, 256);
      draw(own.end - 1);
      products_wait<0>();
      pin(s);
      release_k();
      finish_scores(own.end - 1);
      softmax_block(s, rows, args.factor, decay);
      pack_block();
#pragma unroll 1
      for (int block = own.end - 2; block >= own.begin; --block) {
        barrier_wait(&shared.k_full[k_at.stage()], k_at.parity());
        named_sync(turn, 256);
        start_scores();
        barrier_wait(&shared.v_full[v_at.stage()], v_at.parity());
        start_output();
        named_arrive(next_turn, 256);
        draw(block);
        products_wait<1>();
        pin(s);
        release_k();
        finish_scores(block);
        softmax_block(s, rows, args.factor, decay);
        products_wait<0>();
        pin(o);
        pin(p);
        release_v();
#pragma unroll
        for (int n = 0; n < kDim / 2; ++n) o[n] *= decay[n / 2 % 2];
        pack_block();
      }
      barrier_wait(&shared.v_full[v_at.stage()], v_at.parity());
      start_output();
      products_wait<0>();
      pin(o);
      release_v();
    }
#pragma unroll 1
    for (int block = own.begin; block > blocks.begin; --block) skip_block();

    named_sync(kRound + group, 128);
    char* mine = reinterpret_cast<char*>(shared.q) + (64 * group + 16 * warp) * 128;
    write_rows<T, kDim, kRows * 128>(args, read_tile(shared.tile, lane), 64 * group + 16 * warp, rows, o, mine);
    fence_async();
    __syncwarp();
    release(&shared.q_empty);
  }
}

template <class T, int kDim, int kKeys, int kGroups, int kOptions>
struct ForwardKernel {
  static constexpr int kThreads = 128 * (kGroups + 1);
  using Shared = ForwardShared<kDim, kKeys, kGroups, kOptions>;
  static constexpr bool kPairs = Shared::kHasPairs;
};

template <class T, int kDim, int kKeys, int kGroups, int kOptions>
__global__ void __launch_bounds__(128 * (kGroups + 1), 1)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  using Kernel = ForwardKernel<T, kDim, kKeys, kGroups, kOptions>;
  using Shared = typename Kernel::Shared;
  // Warps that copy pairs need more registers than the one that starts bulk copies.
  constexpr int kFew = kGroups == 3 ? 32 : Kernel::kPairs ? 40 : 24;
  constexpr int kMany = kGroups == 3 ? 160 : Kernel::kPairs ? 232 : 240;
  static_assert(kFew + kGroups * kMany <= (kGroups + 1) * kLaunchRegisters<Kernel::kThreads>);
  extern __shared__ char memory[];
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  const bool copies_pairs = has<kOptions>(args, kBias | kMask);
  if (threadIdx.x == 0) {
    prefetch_map(args.q);
    prefetch_map(args.k);
    prefetch_map(args.v);
    barrier_init(&shared.q_full, 1);
    barrier_init(&shared.q_empty, copies_pairs ? 5 * kGroups : 4 * kGroups);
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      barrier_init(&shared.k_full[stage], 1);
      barrier_init(&shared.v_full[stage], 1);
      barrier_init(&shared.k_empty[stage], 4 * kGroups);
      barrier_init(&shared.v_empty[stage], 4 * kGroups);
    }
    if constexpr (Kernel::kPairs) {
      if (args.has_bias_map) prefetch_map(args.bias);
      if (args.has_mask_map) prefetch_map(args.mask);
      for (int stage = 0; stage < Shared::Pairs::kStages; ++stage) {
        for (int group = 0; group < kGroups; ++group) {
          barrier_init(&shared.pairs.full[stage][group], 32);
          barrier_init(&shared.pairs.empty[stage][group], 4);
        }
      }
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<kFew>();
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      if (threadIdx.x == 0) produce<Shared, kDim, kKeys>(args, shared);
    } else if (Kernel::kPairs && copies_pairs && warp <= kGroups) {
      if constexpr (Kernel::kPairs) produce_pairs(args, shared, warp - 1);
    }
  } else {
    more_registers<kMany>();
    consume<T, kDim, kKeys, kGroups, kOptions>(args, shared);
  }
}

template <class T, int kDim, int kKeys, int kGroups, int kOptions>
bool launch_forward(const AttentionProblem& problem, View y, View lse, int options) {
  using Kernel = ForwardKernel<T, kDim, kKeys, kGroups, kOptions>;
  using Shared = typename Kernel::Shared;
  const auto q = tile_map(problem.q, Shared::kRows), k = tile_map(problem.k, kKeys), v = tile_map(problem.v, kKeys);
  if (!q || !k || !v) return false;
  ForwardArguments args{.q = *q, .k = *k, .v = *v, .y = y.data, .lse = static_cast<float*>(lse.data)};
  // Bulk copies for one option alone, and where the first key of a tile is at a multiple of 16 bytes.
  const bool uses_maps = kOptions != kAnyOption && !problem.q_offsets;
  const auto set_map = [&](const ConstView& view, CUtensorMap& map) {
    const auto found = view && uses_maps ? pair_map(view, 64) : std::nullopt;
    if (found) map = *found;
    return found.has_value();
  };
  args.has_bias_map = set_map(problem.bias, args.bias);
  args.has_mask_map = set_map(problem.mask, args.mask);
  args.y_strides = row_strides(y);
  args.lse_strides = row_strides(lse);
  set_forward_arguments(args, problem, Shared::kRows, options);
  const int rows = kForwardMarkRows;
  const int blocks = problem.q_offsets ? packed_blocks(args.visibility.queries, args.sequences, rows)
                                       : (args.visibility.queries + rows - 1) / rows;
  const int64_t marked = 1 + (problem.q.shape[0] * args.heads * blocks + 3) / 4;
  const bool hides_pairs =
      problem.causal || problem.window > 0 || problem.lengths || problem.q_offsets || problem.mask || problem.bias;
  const Scratch<uint32_t> marks(hides_pairs ? marked : 0);
  if (hides_pairs) {
    check(cudaMemsetAsync(marks.data(), 0, static_cast<size_t>(marked) * 4, stream()), "attention.forward");
    args.marks = {marks.data(), reinterpret_cast<uint8_t*>(marks.data() + 1), rows, blocks};
  }
  const auto kernel = forward_kernel<T, kDim, kKeys, kGroups, kOptions>;
  constexpr int kBytes = sizeof(Shared) + 1024;
  static_assert(kBytes <= 227 * 1024);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "attention.forward");
  kernel<<<std::min(args.tiles, multiprocessors()), Kernel::kThreads, kBytes, stream()>>>(args);
  check_launch("attention.forward");
  if (hides_pairs) tensor_forward(problem, y, lse, args.marks);
  return true;
}

}  // namespace
}  // namespace attend::cuda
