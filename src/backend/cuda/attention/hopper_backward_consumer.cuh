#pragma once

#include "backend/cuda/attention/hopper_backward_roles.cuh"

// The consumers of the backward pass on Hopper, which compute.
namespace attend::cuda {
namespace {

/// The queries [begin, end) that see the two keys of a thread, counted from the thread's first query of a block.
struct SeenBy {
  int begin[2], width[2];
  __device__ __forceinline__ SeenBy(const Visibility& visible, int queries, int key, int first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int j = key + 8 * r, end = j < visible.keys ? visible.query_end(j + 1, queries) : 0;
      begin[r] = visible.query_begin(j) - first;
      width[r] = max(end - first - begin[r], 0);
    }
  }
  /// Sets elements of hidden pairs to 0.
  template <int kCount>
  __device__ __forceinline__ void clear(float (&x)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = i / 2 % 2, column = i / 4 * 8 + i % 2;
      if (static_cast<unsigned>(column - begin[r]) >= static_cast<unsigned>(width[r])) x[i] = 0;
    }
  }
};

/// Adds factor · |position of the query − key|. `distance`: position of the thread's first query − its first key.
template <int kCount>
__device__ __forceinline__ void add_distances(float (&s)[kCount], float factor, int distance) {
  const float first[2] = {static_cast<float>(distance), static_cast<float>(distance - 8)};
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    s[i] = fmaf(factor, fabsf(first[i / 2 % 2] + static_cast<float>(i / 4 * 8 + i % 2)), s[i]);
}

/// Sets scores to −inf where a tile of biases is −inf, even if the score is NaN. `row`: the warp's first key.
template <class T, int kCount>
__device__ __forceinline__ void hide_by_bias(float (&s)[kCount], const void* tile, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kCount / 4; n += 2) {
    uint32_t words[4];
    const int query = 8 * n + lane / 16 * 8 + lane % 8, chunk = row / 8 + lane / 8 % 2;
    read_matrices<true>(words, shared_address(tile) + pair_chunk<2 * kCount>(query, chunk));
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 bias = unpack<T>(words[e]);
      if (bias.x == -INFINITY) s[4 * n + 2 * e] = -INFINITY;
      if (bias.y == -INFINITY) s[4 * n + 2 * e + 1] = -INFINITY;
    }
  }
}

/// Writes a warp's 16 rows of a gradient, times `factor`, through 16 rows of shared memory, in parts of 64 columns.
/// Returns 0, or NaN if an element is not finite.
template <class T, int kDim>
__device__ __forceinline__ float store_rows(const float (&sums)[kDim / 2], float factor, char* mine, T* to,
                                            int64_t stride, int valid, int present) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kPart = kKeys * 128, kChunks = kDim / 8;
  const auto place = [](int r, int chunk) { return chunk / 8 * kPart + r * 128 + ((chunk % 8) ^ (r % 8)) * 16; };
  float probe = 0;
#pragma unroll
  for (int j = 0; j < kChunks; j += 2) {
    uint32_t words[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float a = sums[4 * j + 2 * n], b = sums[4 * j + 2 * n + 1];
      probe = fmaf(a, 0, fmaf(b, 0, probe));
      words[n] = pack<T>(a * factor, b * factor);
    }
    store_matrices(shared_address(mine) + place(lane % 16, j + lane / 16), words[0], words[1], words[2], words[3]);
  }
  __syncwarp();
#pragma unroll 1
  for (int n = 0; n < 16 * kChunks; n += 32) {
    const int r = (n + lane) / kChunks, chunk = (n + lane) % kChunks;
    uint4 words = *reinterpret_cast<const uint4*>(mine + place(r, chunk));
    if (r >= valid) words = {};
    if (r < present) *reinterpret_cast<uint4*>(to + r * stride + chunk * 8) = words;
  }
  __syncwarp();
  return probe;
}

template <class T, class Shape>
__device__ __forceinline__ void consume(const BackwardArguments& args, BackwardShared<Shape>& shared) {
  constexpr int kDim = Shape::kDim, kQueries = Shape::kQueries;
  constexpr bool kScored = Shape::kScored;
  // Elements of dq that a thread has. Without options, a warpgroup has 64 columns of all queries for head size 128, and
  // 64 queries for head size 64; with options, half of the columns.
  constexpr int kOwn = Shape::kPart / 256, kColumns = 2 * kOwn, kGather = 2;  // kGather: a named barrier
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  RingPosition<kStages> at;
  uint32_t kv_parity = 0;

  // Head size 64 has no registers for the weights in both precisions, which an early start of dv needs.
  constexpr bool kEarly = kQueries == 64;
  float dk[kDim / 2], dv[kDim / 2], s[kQueries / 2], dp[kQueries / 2], dq[kOwn];
  uint32_t p[kQueries / 4], ds[kQueries / 4];
  const uint64_t k_rows = tile_descriptor(shared.k + 64 * group * 64);
  const uint64_t v_rows = tile_descriptor(shared.v + 64 * group * 64);
  // s = k qᵀ and dp = v dyᵀ
  const auto start_rows = [&](float(&sums)[kQueries / 2], uint64_t rows, const uint16_t* columns) {
    const uint64_t tile = tile_descriptor(columns);
    forget(sums);
    products_begin();
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      const int part = d / 64, bytes = d % 64 * 2;
      wgmma<T, kQueries, false, false>(sums, advance(rows, part * kKeys * 128 + bytes),
                                       advance(tile, part * kQueries * 128 + bytes), d > 0);
    }
    products_commit();
  };
  // dv += pᵀ dy and dk += dsᵀ q
  const auto start_sums = [&](float(&sums)[kDim / 2], const uint32_t(&weights)[kQueries / 4], const uint16_t* rows) {
    const uint64_t tile = tile_descriptor(rows, kQueries * 128);
    products_begin();
#pragma unroll
    for (int i = 0; i < kQueries; i += 16) wgmma<T, kDim, true>(sums, weights + i / 4, advance(tile, i * 128), 1);
    products_commit();
  };
  // dq = ds k
  const auto start_queries = [&](int stage) {
    const uint64_t rows = tile_descriptor(shared.ds[stage] + (kQueries == 128 ? group * kKeys * 64 : 0));
    const uint64_t columns =
        advance(tile_descriptor(shared.k + (kDim == 128 ? group * kKeys * 64 : 0)), kColumns == 32 ? group * 64 : 0);
    forget(dq);
    products_begin();
#pragma unroll
    for (int j = 0; j < kKeys; j += 16) {
      const uint64_t left = advance(rows, kScored ? j / 64 * kQueries * 128 + j % 64 * 2 : j * 128);
      wgmma<T, kColumns, !kScored, true>(dq, left, advance(columns, j * 128), j > 0);
    }
    products_commit();
  };
  const auto pack_all = [](const float(&from)[kQueries / 2], uint32_t(&to)[kQueries / 4]) {
#pragma unroll
    for (int i = 0; i < kQueries / 2; i += 2) to[i / 2] = pack<T>(from[i], from[i + 1]);
  };
  const auto arrive = [&](uint64_t* barrier) {
    __syncwarp();
    if (lane == 0) barrier_arrive(barrier);
  };
  // The last step's stage of ds and dq, and the parity of its round.
  const auto last_stage = [&] { return at.stage ^ 1; };
  const auto last_parity = [&] { return at.parity ^ static_cast<uint32_t>(at.stage ^ 1); };
  const auto put_queries = [&] {
    // The part before this one, or the one before that, has left the buffer.
    const int before = Shape::kParts == 1 ? at.stage : last_stage();
    barrier_wait(&shared.dq_empty[before], (Shape::kParts == 1 ? at.parity : last_parity()) ^ 1);
    float* part = shared.dq[Shape::kParts == 1 ? 0 : last_stage()];
    float4* to = reinterpret_cast<float4*>(part + group * (Shape::kPart / 2)) + threadIdx.x % 128;
#pragma unroll
    for (int n = 0; n < kOwn / 4; ++n) to[n * 128] = {dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3]};
    fence_async();
    arrive(&shared.dq_full[last_stage()]);
  };
  const auto put_gradients = [&] {
    barrier_wait(&shared.ds_empty[at.stage], at.parity ^ 1);
    const uint32_t base = shared_address(shared.ds[at.stage]);
#pragma unroll
    for (int j = 0; j < kQueries / 8; j += 2) {
      if constexpr (kScored) {
        const int row = 8 * (j + lane / 16) + lane % 8, chunk = 2 * warp + lane / 8 % 2;
        store_transposed(base + group * kQueries * 128 + row * 128 + (chunk ^ (row % 8)) * 16, ds[2 * j], ds[2 * j + 1],
                         ds[2 * j + 2], ds[2 * j + 3]);
      } else {
        const int row = 64 * group + 16 * warp + lane % 16, chunk = j + lane / 16;
        store_matrices(base + row * 128 + j / 8 * kKeys * 128 + ((chunk % 8) ^ (row % 8)) * 16, ds[2 * j],
                       ds[2 * j + 1], ds[2 * j + 2], ds[2 * j + 3]);
      }
    }
    fence_async();
    arrive(&shared.ds_full[at.stage]);
  };

  // Options. A step's head; the number of the thread's first query in the problem; its first key in the sequence.
  uint32_t pairs_parity = 0;
  const ScoreOptions& options = args.options;
  const uint64_t stream = kScored && options.drops ? settled_stream(options.drop) : 0;
  const auto head_of = [&](int step) {
    const int heads = args.schedule.heads, within = heads == 1 ? 0 : step / shared.tile.walk.count();
    return shared.tile.key_head * heads + within;
  };
  const auto first_key = [&] { return shared.tile.block * kKeys + 64 * group + 16 * warp + lane / 4; };
  const auto first_query = [&](int block) { return block * kQueries + lane % 4 * 2; };
  const auto query_number = [&](int step, int block) {
    const int64_t slice = int64_t{shared.tile.batch} * args.heads + head_of(step);
    return static_cast<uint64_t>(slice * args.schedule.visibility.queries + shared.tile.q_begin + first_query(block));
  };
  const auto distance = [&](int block) {
    const Visibility visible(args.schedule.visibility, shared.tile.queries, shared.tile.keys);
    return first_query(block) + visible.shift - first_key();
  };
  const bool has_pairs = kScored && (options.bias.data != nullptr || options.mask.data != nullptr);
  // Scores, in natural units, from q · k.
  const auto score = [&](float(&x)[kQueries / 2], int step, int block) {
    const int row = 64 * group + 16 * warp;
    if (options.cap.cap > 0)
      cap_scores(x, options.cap);
    else
      scale_scores(x, options.scale);
    if (options.slopes != nullptr) add_distances(x, -slope_of<T>(options, head_of(step)), distance(block));
    if (!has_pairs) return;
    barrier_wait(&shared.pairs_full, pairs_parity);
    if (options.bias.data != nullptr) {
      add_bias<T, true>(x, 1, shared.bias, row);
      if (args.has_dbias) hide_by_bias<T>(x, shared.bias, row);
    }
    if (options.mask.data != nullptr) hide_masked<true>(x, shared.mask, row);
    // The bias is needed again if scores are capped.
    if (!(options.cap.cap > 0 && options.bias.data != nullptr)) {
      barrier_arrive(&shared.pairs_empty);
      pairs_parity ^= 1;
    }
  };
  // Multiplies gradients of capped scores by 1 − tanh². The weights give the scores back, which saves registers.
  const auto uncap = [&](float(&weights)[kQueries / 2], float(&gradients)[kQueries / 2], const float2* lse, int step,
                         int block) {
    if (!(options.cap.cap > 0)) return;
#pragma unroll
    for (int i = 0; i < kQueries / 2; ++i) {
      const float2 of = lse[i / 4 * 4];
      weights[i] = (__log2f(weights[i]) + (i % 2 == 0 ? of.x : of.y)) * kLn2;
    }
    if (options.slopes != nullptr) add_distances(weights, slope_of<T>(options, head_of(step)), distance(block));
    if (options.bias.data != nullptr) {
      add_bias<T, true>(weights, -1, shared.bias, 64 * group + 16 * warp);  // the sign does not matter
      barrier_arrive(&shared.pairs_empty);
      pairs_parity ^= 1;
    }
    const float inverse = 1 / options.cap.cap;
#pragma unroll
    for (int i = 0; i < kQueries / 2; ++i) {
      const float t = fminf(fmaxf(weights[i] * inverse, -1.f), 1.f);
      gradients[i] *= fmaf(-t, t, 1.f);
    }
  };

  while (true) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    if (shared.tile.batch < 0) break;
    const int steps = shared.tile.steps;
    int query_block = shared.tile.walk.start;
#pragma unroll
    for (int n = 0; n < kDim / 2; ++n) dk[n] = dv[n] = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const auto hide = [&](float(&x)[kQueries / 2]) {
        const BackwardTile& tile = shared.tile;
        if (query_block >= tile.clear_begin && query_block < tile.clear_end) return;
        const int key = tile.block * kKeys + 64 * group + 16 * warp + lane / 4;
        const Visibility visible(args.schedule.visibility, tile.queries, tile.keys);
        SeenBy(visible, tile.queries, key, query_block * kQueries + lane % 4 * 2).clear(x);
      };
      barrier_wait(&shared.full[at.stage], at.parity);
      start_rows(s, k_rows, shared.q[at.stage]);
      products_wait<1>();  // dk of the step before
      pin(ds);
      if (step > 0) arrive(&shared.empty[last_stage()]);
      start_rows(dp, v_rows, shared.dy[at.stage]);

      products_wait<1>();
      pin(s);
      const float2* lse = reinterpret_cast<const float2*>(shared.lse[at.stage]) + lane % 4;
      if constexpr (kScored) score(s, step, query_block);
      const float factor = kScored ? kLog2E : args.scale_log2;
#pragma unroll
      for (int i = 0; i < kQueries / 2; i += 4) {
        const float2 row = lse[i];
        s[i] = exp2_fast(fmaf(s[i], factor, -row.x));
        s[i + 1] = exp2_fast(fmaf(s[i + 1], factor, -row.y));
        s[i + 2] = exp2_fast(fmaf(s[i + 2], factor, -row.x));
        s[i + 3] = exp2_fast(fmaf(s[i + 3], factor, -row.y));
      }
      hide(s);
      uint32_t kept[1] = {~0u};
      if constexpr (kScored) {
        if (args.options.drops)
          kept_bits<true, 32>(args.options.drop, stream, query_number(step, query_block), first_key(), kept);
      }
      if constexpr (kEarly) {
        if (kScored && args.options.drops) {
#pragma unroll
          for (int i = 0; i < kQueries / 2; i += 2) p[i / 2] = drop_pair(pack<T>(s[i], s[i + 1]), kept, i);
        } else {
          pack_all(s, p);
        }
        start_sums(dv, p, shared.dy[at.stage]);
      }

      products_wait<kEarly ? 1 : 0>();
      pin(dp);
      if constexpr (kScored) {
        if (args.options.drops) {
#pragma unroll
          for (int i = 0; i < kQueries / 2; ++i) dp[i] = is_kept(kept, i) ? dp[i] : 0.f;
        }
      }
      const float2* delta = reinterpret_cast<const float2*>(shared.delta[at.stage]) + lane % 4;
#pragma unroll
      for (int i = 0; i < kQueries / 2; i += 4) {
        const float2 row = delta[i];
        if constexpr (!kEarly) {
          p[i / 2] = pack<T>(s[i], s[i + 1]);
          p[i / 2 + 1] = pack<T>(s[i + 2], s[i + 3]);
        }
        const auto gradient = [&](int n, float d) {
          if constexpr (kScored)
            dp[n] = s[n] == 0 ? 0.f : s[n] * fmaf(dp[n], args.options.drop.kept, -d);
          else
            dp[n] = s[n] * (dp[n] - d);
        };
        gradient(i, row.x);
        gradient(i + 1, row.y);
        gradient(i + 2, row.x);
        gradient(i + 3, row.y);
      }
      if constexpr (kScored)
        uncap(s, dp, lse, step, query_block);
      else
        hide(dp);
      pack_all(dp, ds);
      put_gradients();

      // The compiler keeps products in flight only if they are unconditional: the first dq is ignored.
      if (step > 0) barrier_wait(&shared.ds_full[last_stage()], last_parity());
      start_queries(last_stage());
      if constexpr (!kEarly) start_sums(dv, p, shared.dy[at.stage]);
      start_sums(dk, ds, shared.q[at.stage]);
      products_wait<1>();
      pin(p);
      pin(dq);
      if (step > 0) {
        arrive(&shared.ds_empty[last_stage()]);
        put_queries();
      }
      const Walk& walk = shared.tile.walk;
      query_block = step + 1 == steps - walk.count() ? walk.last_start : walk.next(query_block);
      at.advance();
    }
    if (steps > 0) barrier_wait(&shared.ds_full[last_stage()], last_parity());
    start_queries(last_stage());
    products_wait<0>();
    pin(ds);
    pin(dq);
    pin(dk);
    pin(dv);
    const BackwardTile tile = shared.tile;
    barrier_arrive(&shared.kv_empty);
    // The gradients go through this warp's rows of ds, so that a row is written in pieces of 16 bytes.
    if (steps > 0) {
      arrive(&shared.empty[last_stage()]);
      arrive(&shared.ds_empty[last_stage()]);
      put_queries();
      barrier_wait(&shared.ds_empty[last_stage()], last_parity());
      if constexpr (kScored) barrier_wait(&shared.ds_empty[at.stage], at.parity ^ 1);  // the step before
    }
    const int row = 64 * group + 16 * warp, key = tile.block * kKeys + row,
              keys = args.q_offsets != nullptr ? tile.keys : args.schedule.visibility.keys;
    char* mine = reinterpret_cast<char*>(shared.ds) + row * 128;
    float probe = 0;
    const auto store = [&](const float(&sums)[kDim / 2], float factor, void* to, const RowStrides& step) {
      if (to == nullptr) return;
      T* rows =
          static_cast<T*>(to) + tile.batch * step.batch + tile.key_head * step.head + (tile.k_begin + key) * step.row;
      probe += store_rows<T, kDim>(sums, factor, mine, rows, step.row, tile.keys - key, keys - key);
    };
    store(dv, kScored ? args.options.drop.kept : 1, args.dv, args.dv_strides);
    store(dk, args.scale, args.dk, args.dk_strides);
    if (args.key_marks.any != nullptr && !(probe == 0) && key < keys)
      args.key_marks.mark(
          int64_t{tile.batch} * args.key_heads + tile.key_head,
          args.q_offsets != nullptr ? args.key_marks.packed_row(tile.k_begin, tile.sequence, key) : key);
    if constexpr (kScored) named_sync(kGather, 32 * kConsumerWarps);  // rows of ds belong to all warps
  }
}

}  // namespace
}  // namespace attend::cuda
