#pragma once

#include <cstdint>

#include "backend/cuda/attention/hopper_visibility.h"

// The order in which CTAs of the backward pass add their parts to dq.
//
// A CTA takes one block of keys after another and walks over the blocks of queries that see it. Every block of keys
// adds a part to dq of the query block. Floating-point sums depend on their order, so a part is added only when the
// parts before it have been added. The order is that of the times at which the parts are ready if all CTAs of a wave
// start at once and take one step per query block. An addition takes about as long as a step, so CTAs should come to a
// query block at least kSpacing steps apart.
//
// Without a mask, every block of keys is an item, and CTAs of a wave start at different query blocks. Under a causal
// mask, key block i has the more queries the smaller i is, so an item is blocks − 1 − i and then i, and all items take
// the same time. The walk over the second block starts where the CTA reaches the last query block as long before its
// end as it did after its beginning with the first block: the last query block gets parts at an even rate. The items of
// a wave are spread over the sequence; waves of several heads run side by side.
//
// No deadlock: a part waits only for parts that come earlier in its wave (in the order of first and second blocks,
// heads, started walks and those that came around, query blocks), or for earlier waves. A CTA takes tickets in
// ascending order, and never holds two unfinished items of one wave: it takes none while the wave of its last item has
// tickets left. A wave has no more items than there are CTAs.
namespace attend::cuda {

inline constexpr int kSpacing = 2;  ///< steps between two parts of a query block

/// Query blocks [begin, end) in the order start, start + 1, …, end − 1, begin, …, start − 1.
struct Walk {
  int begin, end;
  int start, last_start;  ///< for the query heads of a key head, and for the last of them
  ATTEND_BOTH int count() const { return end - begin; }
  ATTEND_BOTH int next(int block) const { return block + 1 < end ? block + 1 : begin; }
  ATTEND_BOTH bool contains(int block) const { return block >= begin && block < end; }
};

struct ScheduleOptions {
  VisibilityOptions visibility;
  int heads = 1;  ///< query heads of a key head
  int key_heads = 1;
  int ctas = 1;  ///< the largest number of items of a wave
};

/// Query blocks [begin, end).
struct Blocks {
  int begin, end;
};

/// One of the tickets() of a sequence.
struct Ticket {
  int key_head, item;  ///< item −1: there is none
  int wave_end;        ///< the ticket behind those of its wave
};

/// The schedule of one sequence.
template <int kQueries, int kKeys>
struct Schedule {
  const ScheduleOptions& options;
  Visibility visible;
  int queries;
  int blocks;  ///< of keys
  bool pairs, rotates;
  int items, waves;

  ATTEND_BOTH Schedule(const ScheduleOptions& of, int sequence_queries, int keys)
      : options(of),
        visible(of.visibility, sequence_queries, keys),
        queries(sequence_queries),
        blocks(divide_up(keys, kKeys)),
        pairs(of.visibility.causal && of.visibility.window == 0),
        rotates(!of.visibility.causal && of.visibility.window == 0),
        items(pairs ? divide_up(blocks, 2) : blocks),
        waves(1) {
    // It follows from the sequence alone, so that neighbours in the batch do not change the order. All CTAs must find
    // items in waves that run side by side.
    const int spread =
        rotates ? divide_up(items, larger(query_blocks() / kSpacing, 1)) : divide_up(kSpacing * kQueries, kKeys);
    const int most = larger(static_cast<int>(int64_t{options.key_heads} * items / options.ctas), 1);
    waves = larger(larger(divide_up(items, options.ctas), smaller(spread, most)), 1);
  }

  ATTEND_BOTH int query_blocks() const { return divide_up(queries, kQueries); }
  /// Items of a wave: m, m + waves, m + 2 · waves, …
  ATTEND_BOTH int wave_size(int m) const { return divide_up(items - m, waves); }

  ATTEND_BOTH int tickets() const { return options.key_heads * waves * divide_up(items, waves); }
  /// The first wave of as many key heads as there are CTAs for, then the second wave, and so on.
  ATTEND_BOTH Ticket ticket(int index) const {
    const int size = wave_size(0), group = larger(smaller(options.ctas / size, options.key_heads), 1);
    const int first = index / (group * waves * size) * group, rest = index - first * waves * size;
    const int together = smaller(group, options.key_heads - first) * size;
    const int m = rest / together, at = rest - m * together, head = at / size, place = at - head * size;
    const int item = place * waves + m;
    return {first + head, item < items ? item : -1, index - place + size};
  }

  /// The block of keys that a CTA takes before block `item`; −1: none.
  ATTEND_BOTH int partner(int item) const { return pairs && blocks - 1 - item >= items ? blocks - 1 - item : -1; }

  /// The query blocks that see keys of a block, in the order in which a CTA takes them.
  ATTEND_BOTH Walk walk(int block) const {
    const Blocks of = range(block);
    Walk walk{of.begin, of.end, of.begin, of.begin};
    if (rotates)
      walk.start = walk.last_start = block / waves * walk.end / wave_size(block % waves);
    else if (const int start = late_start(block); walk.contains(start))
      walk.last_start = start;
    if (options.heads == 1) walk.start = walk.last_start;
    return walk;
  }

  /// Query blocks whose every query sees every key of a block. `tail`: rows behind the last query belong to others.
  ATTEND_BOTH Blocks clear_range(int block, bool tail) const {
    const int first = block * kKeys, last = first + kKeys;
    if (last > visible.keys) return {0, 0};
    const int low = visible.causal       ? last - 1 - visible.shift
                    : visible.window > 0 ? last - visible.shift - visible.window
                                         : 0;
    int end = tail ? queries / kQueries : query_blocks();
    if (visible.window > 0) {
      const int limit = larger(first - visible.shift + visible.window, 0);
      if (limit < queries) end = smaller(end, limit / kQueries);
    }
    return {divide_up(larger(low, 0), kQueries), end};
  }

  /// The number of parts that are added before that of `block`. The lanes of a warp (or one of 1 lane) share the work:
  /// the sum of their results counts. In a wave without a causal mask, CTAs that started at or below the query block
  /// come first, the last of them first. Else the first blocks of items come first. For the last head, blocks follow
  /// whose walks started at or below the query block, then those whose walks have come around; of these, later blocks
  /// come first. For the other heads, earlier blocks come first.
  ATTEND_BOTH int rank_part(int block, bool last_head, int query_block, int lane, int lanes) const {
    const int item = block < items ? block : blocks - 1 - block, place = item / waves, m = item - place * waves;
    if (rotates) {
      const int size = wave_size(m), started = smaller(size, divide_up((query_block + 1) * size, query_blocks()));
      if (lane > 0) return 0;
      return before_wave(0, items, m) + (place < started ? started : started + size) - 1 - place;
    }
    const int last = smaller((query_block + 1) * kQueries, queries) - 1;
    const int low = visible.begin(query_block * kQueries) / kKeys, high = divide_up(visible.end(last), kKeys);
    const int first_item = larger(blocks - high, 0), items_end = smaller(high, items);  // of first and second blocks
    int rank = 0;
    if (m > 0) rank = before_wave(low, items_end, m) + before_wave(first_item, blocks - items, m);
    if (block >= items) return lane > 0 ? 0 : rank + in_wave(first_item, item, m);
    rank += in_wave(first_item, blocks - items, m);
    if (!pairs) return lane > 0 ? 0 : rank + in_wave(item + 1, items_end, m);
    if (!last_head) return lane > 0 ? 0 : rank + place;
    const bool came_around = late_start(item) > query_block;
    rank += came_around ? in_wave(item + 1, items_end, m) : -1 - place;
    if (lane > 0) rank = 0;
    for (int other = lane * waves + m; other < items_end; other += lanes * waves)
      rank += late_start(other) <= query_block;
    return rank;
  }

 private:
  ATTEND_BOTH Blocks range(int block) const {
    const int first = block * kKeys;
    const int begin = visible.query_begin(first);
    const int end = visible.query_end(smaller(first + kKeys, visible.keys), queries);
    if (begin >= end) return {0, 0};
    return {begin / kQueries, divide_up(end, kQueries)};
  }
  /// The query block at which the walk over an item's second block starts, if it is in the walk.
  ATTEND_BOTH int late_start(int item) const {
    const int other = item < items ? partner(item) : -1;
    const Blocks own = range(item), before = other < 0 ? Blocks{0, 0} : range(other);
    return own.begin + before.end - before.begin;
  }
  /// The number of items of [begin, end) in wave m, and in waves before m.
  ATTEND_BOTH int in_wave(int begin, int end, int m) const {
    const auto below = [&](int n) { return (n - m + waves - 1) / waves; };
    return begin < end ? below(end) - below(begin) : 0;
  }
  ATTEND_BOTH int before_wave(int begin, int end, int m) const {
    const auto below = [&](int n) { return n / waves * m + smaller(n % waves, m); };
    return begin < end ? below(end) - below(begin) : 0;
  }
};

}  // namespace attend::cuda
