#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "attend/base/threads.h"
#include "backend/kernels.h"

// Products with weights as they lie, [out, in] with contiguous rows, for inference.
namespace attend::cpu {

/// Up to so many rows of x, dot products with the rows of weights beat packing those: they are read once, in order.
inline constexpr int64_t kDotRows = 16;

/// Up to so many go through the weights at a time; with more, the weights are used again.
inline constexpr int64_t kRowsAtOnce = 4;

/// Bytes of weights that a thread takes at a time: half of what is left of its stretch, within these. Taking is an
/// atomic operation, which waits for all reads under way: with 18 KiB at a time a fifth of the bandwidth was lost.
inline constexpr int64_t kLeastChunk = 40 << 10, kMostChunk = 144 << 10;

/// Bytes of weights that an idle worker brings into its cache before their turn.
inline constexpr int64_t kFetchedAhead = 256 << 10;

/// The rows of all products' weights, one after the other, and how they are shared out. A thread goes through a stretch
/// of its own in order, for each jump costs the hardware's prefetching a microsecond to find its pace again, and helps
/// with the others' when that is done. Every row is multiplied by itself, so who takes it does not show in the result.
class WeightRows {
 public:
  WeightRows(std::span<const WeightProduct> products, int64_t unit);

  int64_t stretches() const { return std::ssize(stretches_); }
  /// Where each stretch begins.
  std::vector<const void*> starts() const;
  /// Runs body(product, first, last) on all rows that no other call has taken, those of one stretch first.
  template <class F>
  void work_on(int64_t stretch, F& body) {
    for (int64_t turn = 0; turn < stretches(); ++turn) {
      Stretch& from = stretches_[static_cast<size_t>((stretch + turn) % stretches())];
      for (int64_t i = from.next.fetch_add(1); i < from.end; i = from.next.fetch_add(1)) {
        const Chunk& chunk = chunks_[static_cast<size_t>(i)];
        body(*chunk.product, chunk.first, chunk.last);
      }
    }
  }

 private:
  struct Stretch {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct Chunk {
    const WeightProduct* product;
    int64_t first, last;
  };
  std::vector<Chunk> chunks_;
  std::vector<Stretch> stretches_;
};

/// Models go through their weights in the same order for every token. While the calling thread does what lies between
/// two products, the workers bring the first of the next weights into their caches: those that came after `starts` the
/// last time.
void fetch_next_weights(const std::vector<const void*>& starts);

/// Runs body(product, first, last) over all rows in parallel, in multiples of `unit` rows.
template <class F>
void for_weight_rows(std::span<const WeightProduct> products, int64_t unit, F&& body) {
  WeightRows rows(products, unit);
  fetch_next_weights(rows.starts());
  parallel_for(rows.stretches(), [&](int64_t) { rows.work_on(worker_place() % rows.stretches(), body); });
}

/// y = x · weightᵀ + bias with i8 weights: any number of rows of x.
void multiply_int8(ConstRows x, std::span<const WeightProduct> products);

}  // namespace attend::cpu
