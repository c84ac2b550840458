#pragma once

#include "backend/cuda/attention/hopper_backward.h"

// The warps of the backward pass on Hopper: the producer, the consumers, and those that add the parts of dq.
namespace attend::cuda {
namespace {

#ifndef ATTEND_TURN_POLLS
#define ATTEND_TURN_POLLS (1u << 28)  // minutes; then the order of turns has an error
#endif

constexpr int kKeys = kBackwardKeys, kStages = 2, kConsumerWarps = 8, kAdders = 2;
constexpr int kHalf = 64 * 64;  ///< elements of dq that a warpgroup computes

template <int kDim>
struct alignas(1024) BackwardShared {
  static constexpr int kQueries = block_queries(kDim);
  alignas(1024) uint16_t k[kKeys * kDim];
  alignas(1024) uint16_t v[kKeys * kDim];
  alignas(1024) uint16_t q[kStages][kQueries * kDim];
  alignas(1024) uint16_t dy[kStages][kQueries * kDim];
  alignas(1024) uint16_t ds[kStages][kQueries * kKeys];  ///< dSᵀ: 128 rows, in parts of 64 queries
  alignas(1024) float dq[kStages][2 * kHalf];
  float lse[kStages][kQueries], delta[kStages][kQueries];
  BackwardTile tile;
  uint64_t kv_full, kv_empty;              ///< of k, v and tile
  uint64_t full[kStages], empty[kStages];  ///< of q, dy, lse and delta
  // A stage of ds and dq is used in the same round as that of q.
  uint64_t ds_full[kStages], ds_empty[kStages], dq_full[kStages], dq_empty[kStages];
  uint64_t item_done[2];  ///< of even and odd items of the CTA
};

template <int kDim>
using TileSchedule = Schedule<block_queries(kDim), kKeys>;

/// Takes the next ticket, or returns one at or behind the end. A CTA that took a ticket of a wave while its item of the
/// same wave waits for its turn could wait for itself: `finish` waits for the item of wave `last`.
template <class F>
__device__ __forceinline__ int take_ticket(const BackwardArguments& args, int tickets, int last, F&& finish) {
  uint32_t next = *static_cast<volatile const uint32_t*>(args.ticket);
  while (static_cast<int>(next) < tickets) {
    if (args.plan[2 * next].wave == last) finish();
    const uint32_t found = atomicCAS(args.ticket, next, next + 1);
    if (found == next) break;
    next = found;
  }
  return static_cast<int>(next);
}

template <int kDim>
__device__ __forceinline__ void produce(const BackwardArguments& args, BackwardShared<kDim>& shared) {
  constexpr int kQueries = BackwardShared<kDim>::kQueries;
  RingPosition<kStages> at;
  uint32_t kv_parity = 0;
  const auto load_keys = [&](const BackwardTile* tile) {
    barrier_wait(&shared.kv_empty, kv_parity ^ 1);
    kv_parity ^= 1;
    const int key = tile->block * kKeys;
    barrier_expect(&shared.kv_full, 2 * sizeof(shared.k) + sizeof(BackwardTile));
    copy_bytes(&shared.tile, tile, &shared.kv_full, sizeof(BackwardTile));
    copy_tile(shared.k, args.k, &shared.kv_full, key, tile->key_head, tile->batch);
    copy_tile(shared.v, args.v, &shared.kv_full, key, tile->key_head, tile->batch);
  };
  const auto load_tile = [&](const BackwardTile* tile) {
    if (tile->block < 0) return;
    const Walk walk = tile->walk;
    const int group = args.schedule.heads, batch = tile->batch, first_head = tile->key_head * group;
    if (walk.count() == 0) load_keys(tile);
    for (int head = first_head; head < first_head + group; ++head) {
      const int64_t rows = (int64_t{batch} * args.heads + head) * args.query_blocks * kQueries;
      int block = head + 1 < first_head + group ? walk.start : walk.last_start;
      for (int step = 0; step < walk.count(); ++step, block = walk.next(block)) {
        const int first = block * kQueries;
        uint64_t* full = &shared.full[at.stage];
        barrier_wait(&shared.empty[at.stage], at.parity ^ 1);
        barrier_expect(full, 2 * sizeof(shared.q[0]) + 2 * sizeof(shared.lse[0]));
        copy_tile(shared.q[at.stage], args.q, full, first, head, batch);
        copy_tile(shared.dy[at.stage], args.dy, full, first, head, batch);
        copy_bytes(shared.lse[at.stage], args.lse + rows + first, full, sizeof(shared.lse[0]));
        copy_bytes(shared.delta[at.stage], args.delta + rows + first, full, sizeof(shared.delta[0]));
        at.advance();
        if (step == 0 && head == first_head) load_keys(tile);  // k and v become free later than a stage of q
      }
    }
  };
  const int tickets = *args.tickets;
  int wave = -1;
  uint32_t taken = 0, done = 0;  // items
  const auto finish_item = [&] {
    barrier_wait(&shared.item_done[done & 1], done / 2 & 1);
    ++done;
  };
  const auto finish = [&] {
    while (done < taken) finish_item();
  };
  while (true) {
    if (done + 1 < taken) finish_item();
    const int ticket = take_ticket(args, tickets, wave, finish);
    if (ticket >= tickets) break;
    const BackwardTile* tiles = args.plan + 2 * ticket;
    if (tiles[1].block < 0) continue;
    wave = tiles[1].wave;
    ++taken;
    load_tile(tiles);
    load_tile(tiles + 1);
  }
  barrier_wait(&shared.kv_empty, kv_parity ^ 1);
  barrier_expect(&shared.kv_full, sizeof(BackwardTile));
  copy_bytes(&shared.tile, args.plan + 2 * tickets, &shared.kv_full, sizeof(BackwardTile));
}

__device__ __forceinline__ void wait_for_turn(const uint32_t* turn, uint32_t rank) {
  for (uint32_t polls = 0; load_acquire(turn) != rank; ++polls) {
    if (polls > ATTEND_TURN_POLLS) __trap();
  }
}

/// A warp that adds every second part of dq.
template <int kDim>
__device__ __forceinline__ void add_parts(const BackwardArguments& args, BackwardShared<kDim>& shared, int own) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t kv_parity = 0;
  RingPosition<kStages> at;
  int item = 0;  // even or odd
  while (true) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    if (shared.tile.batch < 0) break;
    const Walk walk = shared.tile.walk;
    const int block = shared.tile.block,
              slice = shared.tile.batch * args.heads + shared.tile.key_head * args.schedule.heads;
    const bool is_last = shared.tile.is_last;
    const TileSchedule<kDim> schedule(args.schedule, shared.tile.queries, shared.tile.keys);
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.kv_empty);
    for (int head = 0; head < args.schedule.heads; ++head) {
      const bool last_head = head + 1 == args.schedule.heads;
      int query_block = last_head ? walk.last_start : walk.start;
      for (int step = 0; step < walk.count(); ++step, query_block = walk.next(query_block), at.advance()) {
        if (at.stage != own) continue;
        const int part = schedule.rank_part(block, last_head, query_block, lane, 32);
        const uint32_t rank = __reduce_add_sync(0xffffffff, static_cast<uint32_t>(part));
        const int64_t place = int64_t{slice + head} * args.query_blocks + query_block;
        barrier_wait(&shared.dq_full[own], at.parity);
        if (lane == 0) {
          wait_for_turn(args.turns + place, rank);
          fence_async_global();
          if (rank == 0)
            write_bytes(args.dq + place * (2 * kHalf), shared.dq[own], sizeof(shared.dq[own]));
          else
            add_floats(args.dq + place * (2 * kHalf), shared.dq[own], sizeof(shared.dq[own]));
          writes_commit();
          writes_wait_read();
          barrier_arrive(&shared.dq_empty[own]);
          writes_wait();
          fence_async_global();
          store_release(args.turns + place, rank + 1);
        }
        __syncwarp();
      }
    }
    if (!is_last) continue;
    if (lane == 0) barrier_arrive(&shared.item_done[item]);
    item ^= 1;
  }
}

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

template <class T, int kDim>
__device__ __forceinline__ void consume(const BackwardArguments& args, BackwardShared<kDim>& shared) {
  using Shared = BackwardShared<kDim>;
  constexpr int kQueries = Shared::kQueries;
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  RingPosition<kStages> at;
  uint32_t kv_parity = 0;

  // Head size 64 has no registers for the weights in both precisions, which an early start of dv needs.
  constexpr bool kEarly = kDim == 128;
  float dk[kDim / 2], dv[kDim / 2], s[kQueries / 2], dp[kQueries / 2], dq[32];
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
  // dq = ds k: 64 columns of all queries for head size 128, 64 queries for head size 64
  const auto start_queries = [&](int stage) {
    const uint64_t rows = tile_descriptor(shared.ds[stage] + (kDim == 64 ? group * kKeys * 64 : 0));
    const uint64_t columns = tile_descriptor(shared.k + (kDim == 128 ? group * kKeys * 64 : 0));
    forget(dq);
    products_begin();
#pragma unroll
    for (int j = 0; j < kKeys; j += 16)
      wgmma<T, 64, true, true>(dq, advance(rows, j * 128), advance(columns, j * 128), j > 0);
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
    barrier_wait(&shared.dq_empty[last_stage()], last_parity() ^ 1);
    float4* to = reinterpret_cast<float4*>(shared.dq[last_stage()] + group * kHalf) + threadIdx.x % 128;
#pragma unroll
    for (int n = 0; n < 8; ++n) to[n * 128] = {dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3]};
    fence_async();
    arrive(&shared.dq_full[last_stage()]);
  };
  const auto put_gradients = [&] {
    barrier_wait(&shared.ds_empty[at.stage], at.parity ^ 1);
    const int row = 64 * group + 16 * warp + lane % 16;
    const uint32_t to = shared_address(shared.ds[at.stage]) + row * 128;
#pragma unroll
    for (int j = 0; j < kQueries / 8; j += 2) {
      const int chunk = j + lane / 16;
      store_matrices(to + j / 8 * kKeys * 128 + ((chunk % 8) ^ (row % 8)) * 16, ds[2 * j], ds[2 * j + 1], ds[2 * j + 2],
                     ds[2 * j + 3]);
    }
    fence_async();
    arrive(&shared.ds_full[at.stage]);
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
#pragma unroll
      for (int i = 0; i < kQueries / 2; i += 4) {
        const float2 row = lse[i];
        s[i] = exp2_fast(fmaf(s[i], args.scale_log2, -row.x));
        s[i + 1] = exp2_fast(fmaf(s[i + 1], args.scale_log2, -row.y));
        s[i + 2] = exp2_fast(fmaf(s[i + 2], args.scale_log2, -row.x));
        s[i + 3] = exp2_fast(fmaf(s[i + 3], args.scale_log2, -row.y));
      }
      hide(s);
      if constexpr (kEarly) {
        pack_all(s, p);
        start_sums(dv, p, shared.dy[at.stage]);
      }

      products_wait<kEarly ? 1 : 0>();
      pin(dp);
      const float2* delta = reinterpret_cast<const float2*>(shared.delta[at.stage]) + lane % 4;
#pragma unroll
      for (int i = 0; i < kQueries / 2; i += 4) {
        const float2 row = delta[i];
        if constexpr (!kEarly) {
          p[i / 2] = pack<T>(s[i], s[i + 1]);
          p[i / 2 + 1] = pack<T>(s[i + 2], s[i + 3]);
        }
        dp[i] = s[i] * (dp[i] - row.x);
        dp[i + 1] = s[i + 1] * (dp[i + 1] - row.y);
        dp[i + 2] = s[i + 2] * (dp[i + 2] - row.x);
        dp[i + 3] = s[i + 3] * (dp[i + 3] - row.y);
      }
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
    arrive(&shared.kv_empty);
    // The gradients go through this warp's rows of ds, so that a row is written in pieces of 16 bytes.
    if (steps > 0) {
      arrive(&shared.empty[last_stage()]);
      arrive(&shared.ds_empty[last_stage()]);
      put_queries();
      barrier_wait(&shared.ds_empty[last_stage()], last_parity());
    }
    const int row = 64 * group + 16 * warp, key = tile.block * kKeys + row, keys = args.schedule.visibility.keys;
    char* mine = reinterpret_cast<char*>(shared.ds) + row * 128;
    float probe = 0;
    const auto store = [&](const float(&sums)[kDim / 2], float factor, void* to, const RowStrides& step) {
      if (to == nullptr) return;
      T* rows = static_cast<T*>(to) + tile.batch * step.batch + tile.key_head * step.head + key * step.row;
      probe += store_rows<T, kDim>(sums, factor, mine, rows, step.row, tile.keys - key, keys - key);
    };
    store(dv, 1, args.dv, args.dv_strides);
    store(dk, args.scale, args.dk, args.dk_strides);
    if (args.key_marks.any != nullptr && !(probe == 0) && key < keys)
      args.key_marks.mark(int64_t{tile.batch} * args.key_heads + tile.key_head, key);
  }
}

}  // namespace
}  // namespace attend::cuda
