#pragma once

#include "backend/cuda/attention/hopper_backward.h"

// The warps of the backward pass on Hopper that move data: the producer, those that add the parts of dq, and the one
// that loads biases and masks.
namespace attend::cuda {
namespace {

#ifndef ATTEND_TURN_POLLS
#define ATTEND_TURN_POLLS (1u << 28)  // minutes; then the order of turns has an error
#endif

constexpr int kKeys = kBackwardKeys, kStages = 2, kConsumerWarps = 8, kAdders = 2;
constexpr int kItems = 4;  // whose parts of dq may be unfinished

/// kScored: with options that change scores, tested at run time.
template <int kHeadSize, bool kWithOptions>
struct BackwardShape {
  static constexpr int kDim = kHeadSize;
  static constexpr bool kScored = kWithOptions;
  static constexpr int kQueries = block_queries(kDim, kScored);
  static constexpr int kPart = kQueries * kDim;  ///< elements of a part of dq
  static constexpr int kParts = kDim == 128 && kScored ? 1 : 2;
  static constexpr int kPairs = kScored ? kQueries * kKeys : 1;
};

template <class Shape>
struct alignas(1024) BackwardShared {
  static constexpr int kQueries = Shape::kQueries, kDim = Shape::kDim;
  alignas(1024) uint16_t k[kKeys * kDim];
  alignas(1024) uint16_t v[kKeys * kDim];
  alignas(1024) uint16_t q[kStages][kQueries * kDim];
  alignas(1024) uint16_t dy[kStages][kQueries * kDim];
  /// dSᵀ: 128 rows, in parts of 64 queries; with options dS, in parts of 64 keys, as the gradient of the bias has it.
  alignas(1024) uint16_t ds[kStages][kQueries * kKeys];
  alignas(1024) float dq[Shape::kParts][Shape::kPart];
  alignas(Shape::kScored ? 1024 : 16) uint16_t bias[Shape::kPairs];
  alignas(Shape::kScored ? 1024 : 16) uint8_t mask[Shape::kPairs];
  alignas(16) float lse[kStages][kQueries];
  alignas(16) float delta[kStages][kQueries];
  BackwardTile tile;
  uint64_t kv_full, kv_empty;              ///< of k, v and tile; every lane that reads tile arrives
  uint64_t full[kStages], empty[kStages];  ///< of q, dy, lse and delta
  // A stage of ds is used in the same round as that of q, and so are the barriers of a part of dq.
  uint64_t ds_full[kStages], ds_empty[kStages], dq_full[kStages], dq_empty[kStages];
  uint64_t pairs_full, pairs_empty;  ///< of bias and mask; every lane arrives
  uint64_t item_done[kItems];
};

template <class Shape>
using TileSchedule = Schedule<Shape::kQueries, kKeys>;

/// Takes the next ticket, or returns one at or behind the end. A CTA that took a ticket of a wave while its item of the
/// same wave waits for its turn could wait for itself: `finish` waits for the last item if its wave has tickets left.
template <class F>
__device__ __forceinline__ int take_ticket(const BackwardArguments& args, int wave_end, F&& finish) {
  if (static_cast<int>(*static_cast<volatile const uint32_t*>(args.ticket)) < wave_end) finish();
  return static_cast<int>(atomicAdd(args.ticket, 1u));
}

template <class Shape>
__device__ __forceinline__ void produce(const BackwardArguments& args, BackwardShared<Shape>& shared) {
  constexpr int kQueries = Shape::kQueries;
  RingPosition<kStages> at;
  uint32_t kv_parity = 0;
  const auto load_keys = [&](const BackwardTile* tile) {
    barrier_wait(&shared.kv_empty, kv_parity ^ 1);
    kv_parity ^= 1;
    const int key = tile->k_begin + tile->block * kKeys;
    barrier_expect(&shared.kv_full, 2 * sizeof(shared.k) + sizeof(BackwardTile));
    copy_bytes(&shared.tile, tile, &shared.kv_full, sizeof(BackwardTile));
    copy_tile(shared.k, args.k, &shared.kv_full, key, tile->key_head, tile->batch);
    copy_tile(shared.v, args.v, &shared.kv_full, key, tile->key_head, tile->batch);
  };
  const auto load_tile = [&](const BackwardTile* tile) {
    if (tile->block < 0) return;
    const Walk walk = tile->walk;
    const int group = args.schedule.heads, batch = tile->batch, first_head = tile->key_head * group;
    const int q_begin = tile->q_begin, first_block = tile->first_block;
    if (walk.count() == 0) load_keys(tile);
    for (int head = first_head; head < first_head + group; ++head) {
      const int64_t rows = ((int64_t{batch} * args.heads + head) * args.query_blocks + first_block) * kQueries;
      int block = head + 1 < first_head + group ? walk.start : walk.last_start;
      for (int step = 0; step < walk.count(); ++step, block = walk.next(block)) {
        const int first = block * kQueries;
        uint64_t* full = &shared.full[at.stage];
        barrier_wait(&shared.empty[at.stage], at.parity ^ 1);
        barrier_expect(full, 2 * sizeof(shared.q[0]) + 2 * sizeof(shared.lse[0]));
        copy_tile(shared.q[at.stage], args.q, full, q_begin + first, head, batch);
        copy_tile(shared.dy[at.stage], args.dy, full, q_begin + first, head, batch);
        copy_bytes(shared.lse[at.stage], args.lse + rows + first, full, sizeof(shared.lse[0]));
        copy_bytes(shared.delta[at.stage], args.delta + rows + first, full, sizeof(shared.delta[0]));
        at.advance();
        if (step == 0 && head == first_head) load_keys(tile);  // k and v become free later than a stage of q
      }
    }
  };
  const int tickets = *args.tickets;
  int wave_end = 0;              // of the last item
  uint32_t taken = 0, done = 0;  // items
  const auto finish_item = [&] {
    barrier_wait(&shared.item_done[done % kItems], done / kItems & 1);
    ++done;
  };
  const auto finish = [&] {
    while (done < taken) finish_item();
  };
  while (true) {
    if (done + kItems <= taken) finish_item();
    const int ticket = take_ticket(args, wave_end, finish);
    if (ticket >= tickets) break;
    const BackwardTile* tiles = args.plan + 2 * ticket;
    if (tiles[1].block < 0) continue;
    wave_end = tiles[1].wave_end;
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

/// A warp that adds every second part of dq, and writes the gradients of the bias of the same steps.
template <class Shape>
__device__ __forceinline__ void add_parts(const BackwardArguments& args, BackwardShared<Shape>& shared, int own) {
  constexpr int kPart = Shape::kPart;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const part = shared.dq[own % Shape::kParts];
  uint32_t kv_parity = 0;
  RingPosition<kStages> at;
  int item = 0;  // its barrier
  while (true) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    if (shared.tile.batch < 0) break;
    const Walk walk = shared.tile.walk;
    const int block = shared.tile.block, batch = shared.tile.batch, first_block = shared.tile.first_block;
    const int first_head = shared.tile.key_head * args.schedule.heads;
    const bool is_last = shared.tile.is_last;
    const TileSchedule<Shape> schedule(args.schedule, shared.tile.queries, shared.tile.keys);
    barrier_arrive(&shared.kv_empty);
    for (int head = 0; head < args.schedule.heads; ++head) {
      const bool last_head = head + 1 == args.schedule.heads;
      int query_block = last_head ? walk.last_start : walk.start;
      for (int step = 0; step < walk.count(); ++step, query_block = walk.next(query_block), at.advance()) {
        if (at.stage != own) continue;
        const uint32_t rank = __reduce_add_sync(
            0xffffffff, static_cast<uint32_t>(schedule.rank_part(block, last_head, query_block, lane, 32)));
        const int slice = batch * args.heads + first_head + head;
        const int64_t place = int64_t{slice} * args.query_blocks + first_block + query_block;
        if constexpr (Shape::kScored) {
          if (args.has_dbias) {
            barrier_wait(&shared.ds_full[own], at.parity);
            if (lane == 0) {
              for (int half = 0; half < 2; ++half)
                write_pairs(args.dbias, shared.ds[own] + half * 64 * 64, block * kKeys + half * 64,
                            query_block * Shape::kQueries, first_head + head, batch);
              writes_commit();
              writes_wait_read();
              barrier_arrive(&shared.ds_empty[own]);
            }
            __syncwarp();
          }
        }
        barrier_wait(&shared.dq_full[own], at.parity);
        if (lane == 0) {
          if (rank > 0) wait_for_turn(args.turns + place, rank);
          fence_async_global();
          if (rank == 0)
            write_bytes(args.dq + place * kPart, part, kPart * sizeof(float));
          else
            add_floats(args.dq + place * kPart, part, kPart * sizeof(float));
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
    item = (item + 1) % kItems;
  }
}

/// The warp that loads the biases and masks of the consumers' steps.
template <class Shape>
__device__ __forceinline__ void load_pairs(const BackwardArguments& args, BackwardShared<Shape>& shared) {
  const PairSource &bias = args.options.bias, &mask = args.options.mask;
  uint32_t kv_parity = 0, parity = 0;
  while (true) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    const BackwardTile tile = shared.tile;
    if (tile.batch < 0) break;
    barrier_arrive(&shared.kv_empty);
    if (bias.data == nullptr && mask.data == nullptr) continue;
    const int first_key = tile.block * kKeys;
    for (int head = 0; head < args.schedule.heads; ++head) {
      int query_block = head + 1 == args.schedule.heads ? tile.walk.last_start : tile.walk.start;
      for (int step = 0; step < tile.walk.count(); ++step, query_block = tile.walk.next(query_block), parity ^= 1) {
        const int first = query_block * Shape::kQueries, own_head = tile.key_head * args.schedule.heads + head;
        barrier_wait(&shared.pairs_empty, parity ^ 1);
        bool is_async = true;
        if (bias.data != nullptr)
          is_async &= copy_pairs<uint16_t, Shape::kQueries>(bias, tile.batch, own_head, tile.q_begin + first,
                                                            tile.k_begin + first_key, tile.queries - first,
                                                            tile.keys - first_key, shared.bias);
        if (mask.data != nullptr)
          is_async &= copy_pairs<uint8_t, Shape::kQueries>(mask, tile.batch, own_head, tile.q_begin + first,
                                                           tile.k_begin + first_key, tile.queries - first,
                                                           tile.keys - first_key, shared.mask);
        arrive_after_copies(&shared.pairs_full, is_async);
      }
    }
  }
}

}  // namespace
}  // namespace attend::cuda
