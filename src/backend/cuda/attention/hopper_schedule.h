#pragma once

#include "backend/cuda/attention/hopper_common.h"

// The order in which CTAs of the backward pass add their parts to dq.
//
// A CTA takes one block of keys after another and walks over the blocks of queries that see it. Every block of keys
// adds a part to dq of the query block. Floating-point sums depend on their order, so a part is added only when the
// parts before it have been added. The order is that of the times at which the parts are ready if all CTAs of a wave
// start at once and take one step per query block: then nobody waits.
//
// Under a causal mask, key block i has the more queries the smaller i is, so a CTA takes blocks i and blocks − 1 − i
// (an item), and all items take the same time. It walks over the first upwards and over the second downwards. Without
// a mask, every block of keys is an item, and CTAs of a wave start at different query blocks.
//
// No deadlock: a part waits only for parts with an earlier time in its wave, or for earlier waves; a CTA takes its next
// item, in ascending order, only after all its parts are added; and a wave has no more items than there are CTAs.
namespace attend::cuda {

/// Query blocks [begin, end) in the order start, start + 1, …, end − 1, begin, …, or from end − 1 down to begin.
struct Walk {
  int begin, end, start;
  bool down;
  __host__ __device__ __forceinline__ int count() const { return end - begin; }
  __host__ __device__ __forceinline__ int at(int step) const {
    if (down) return end - 1 - step;
    return start + step < end ? start + step : start + step - count();
  }
  /// The inverse of at().
  __host__ __device__ __forceinline__ int step_of(int block) const {
    if (down) return end - 1 - block;
    return block >= start ? block - start : block - start + count();
  }
};

struct ScheduleOptions {
  VisibilityOptions visibility;
  int heads = 1;  ///< query heads of a key head
  int wave = 1;   ///< items of a wave
};

/// The schedule of one key head of one sequence.
template <int kQueries, int kKeys>
struct Schedule {
  const ScheduleOptions& options;
  Visibility visible;
  int blocks;  ///< of keys
  bool pairs, rotates;
  int items;

  __host__ __device__ __forceinline__ Schedule(const ScheduleOptions& of, int keys)
      : options(of),
        visible(of.visibility, keys),
        blocks((keys + kKeys - 1) / kKeys),
        pairs(of.visibility.causal && of.visibility.window == 0),
        rotates(!of.visibility.causal && of.visibility.window == 0),
        items(pairs ? (blocks + 1) / 2 : blocks) {}

  /// The block of keys that an item takes second; −1: none.
  __host__ __device__ __forceinline__ int second(int item) const {
    return pairs && blocks - 1 - item >= items ? blocks - 1 - item : -1;
  }
  __host__ __device__ __forceinline__ int item_of(int block) const {
    return block < items ? block : blocks - 1 - block;
  }

  /// The number of items of the wave that begins with an item.
  __host__ __device__ __forceinline__ unsigned wave_at(int first) const { return min(options.wave, items - first); }

  /// The query blocks that see keys of a block, in the order in which a CTA takes them.
  __host__ __device__ __forceinline__ Walk walk(int block) const {
    const int first = block * kKeys, queries = options.visibility.queries;
    const int begin = visible.query_begin(first), end = visible.query_end(min(first + kKeys, visible.keys), queries);
    if (begin >= end) return {0, 0, 0, false};
    Walk walk{begin / kQueries, (end + kQueries - 1) / kQueries, 0, block >= items};
    walk.start = walk.begin;
    if (rotates) {
      const unsigned at = block % options.wave;
      walk.start = at * walk.end / wave_at(block - at);
    }
    return walk;
  }

  /// Whether every query of a block sees every key of a block.
  __host__ __device__ __forceinline__ bool is_clear(int block, int query_block) const {
    const int last = min((query_block + 1) * kQueries, options.visibility.queries) - 1;
    return (block + 1) * kKeys <= visible.end(query_block * kQueries) && block * kKeys >= visible.begin(last);
  }

  /// The time at which a CTA comes to a query block of the head-th head, or −1 if it never does.
  __host__ __device__ __forceinline__ int time(int block, int head, int query_block) const {
    const Walk own = walk(block);
    if (query_block < own.begin || query_block >= own.end) return -1;
    const int earlier = block < items ? 0 : options.heads * walk(blocks - 1 - block).count();
    return earlier + head * own.count() + own.step_of(query_block);
  }

  /// The number of parts that are added before that of `block`. The warp's lanes (or one of 1 lane) share the work: the
  /// sum of their results counts.
  __host__ __device__ __forceinline__ int rank_part(int block, int head, int query_block, int lane, int lanes) const {
    const int own_item = item_of(block), own_time = time(block, head, query_block);
    const int begin = own_item / options.wave * options.wave, end = min(begin + options.wave, items);
    int rank = 0;
    if (rotates) {  // all of the wave see the query block; those that started at or below it come first, backwards
      const unsigned wave = wave_at(begin), total = walk(block).end;
      const int started = min(wave, ((query_block + 1) * wave + total - 1) / total), at = block - begin;
      if (lane == 0) rank = begin + (at < started ? started - 1 - at : started + static_cast<int>(wave) - 1 - at);
      return rank;
    }
    const auto count = [&](int other) {
      const int then = time(other, head, query_block);
      rank += then >= 0 && (then < own_time || (then == own_time && other < block));
    };
    for (int item = begin + lane; item < end; item += lanes) {
      count(item);
      if (second(item) >= 0) count(second(item));
    }
    if (lane == 0 && begin > 0) {
      const int last = min((query_block + 1) * kQueries, options.visibility.queries) - 1;
      const int low = visible.begin(query_block * kQueries) / kKeys, high = (visible.end(last) + kKeys - 1) / kKeys;
      rank += max(min(high, begin) - low, 0);
      if (pairs) rank += max(high - max(low, blocks - begin), 0);
    }
    return rank;
  }
};

}  // namespace attend::cuda
