#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "attend/base/threads.h"
#include "backend/kernels.h"

// Products with weights in place, [out, in] with contiguous rows, for inference.
namespace attend::cpu {

/// Up to this many rows of x, dot products with rows of i8 weights are faster than packing: the weights are read once,
/// in order.
inline constexpr int64_t kDotRows = 16;

/// Number of rows of x that are multiplied in one pass over i8 weights.
inline constexpr int64_t kRowsAtOnce = 4;

/// Limits on the bytes of weights that a thread claims at a time, which is half of the rest of its stretch. A claim is
/// an atomic operation, which waits for all reads in flight: with claims of 18 KiB a fifth of the bandwidth was lost.
inline constexpr int64_t kLeastChunk = 40 << 10, kMostChunk = 144 << 10;

/// Bytes of weights that an idle worker prefetches into its cache.
inline constexpr int64_t kFetchedAhead = 256 << 10;

/// Distributes the rows of all products' weights over the threads. Each thread goes through its own stretch in order,
/// because after each jump the hardware prefetcher needs a microsecond to regain its pace. Then it helps with the
/// stretches of other threads. Rows are multiplied independently, so the result does not depend on which thread takes a
/// row.
class WeightRows {
 public:
  /// `packed`: the panels of the weights are read.
  WeightRows(std::span<const WeightProduct> products, int64_t unit, bool packed = false);

  int64_t stretches() const { return std::ssize(stretches_); }
  /// The address at which each stretch begins.
  std::vector<const void*> starts() const;
  /// Runs body(product, first, last) on all rows that no other call has claimed, starting with the given stretch.
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
  const bool packed_;
  std::vector<Chunk> chunks_;
  std::vector<Stretch> stretches_;
};

/// Prefetches the weights of the next product while the calling thread works between two products. Models go through
/// their weights in the same order for every token: the workers fetch the first of the weights that followed `starts`
/// the last time.
void fetch_next_weights(const std::vector<const void*>& starts);

/// Runs body(product, first, last) over all rows in parallel, in multiples of `unit` rows.
template <class F>
void for_weight_rows(std::span<const WeightProduct> products, int64_t unit, F&& body, bool packed = false) {
  WeightRows rows(products, unit, packed);
  fetch_next_weights(rows.starts());
  parallel_for(rows.stretches(), [&](int64_t) { rows.work_on(worker_place() % rows.stretches(), body); });
}
/// The same for panels of `unit` rows.
template <class F>
void for_packed_rows(std::span<const WeightProduct> products, int64_t unit, F&& body) {
  for_weight_rows(products, unit, body, true);
}

/// y = x · weightᵀ + bias with i8 weights, for any number of rows of x.
void multiply_int8(ConstRows x, std::span<const WeightProduct> products);

/// WeightKernels::pack for i8 weights.
size_t pack_int8(const WeightMatrix& weight, void* to);

/// The product of a few rows of x, rounded to bf16, with bf16 weights. Gives the bits of multiply_bf16(). Returns
/// false, without computing anything, if the processor has no kernel for it or if multiply_bf16() would refuse a
/// product.
bool multiply_few_bf16(ConstRows x, std::span<const WeightProduct> products);

/// multiply_weights() for products without a norm, an activation, a residual or places.
void multiply_formats(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options);

}  // namespace attend::cpu
