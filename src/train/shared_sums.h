#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attend/tensor/tensor.h"
#include "distributed/shared_memory.h"

namespace attend {

/// The gradients of processes on one host, added in memory that they share. Each process puts its parts of a bucket
/// there; then each adds its slice of all parts, in the order of the tree (see TreeSum), in place. The first part of
/// rank 0 so becomes the sum, which all processes read where it is.
class SharedSums {
 public:
  using Parts = std::vector<std::vector<std::pair<int64_t, int64_t>>>;  ///< of each rank: first leaf, number of leaves

  /// For buckets of these sizes. Null if the members of the group do not share memory. Collective.
  static std::unique_ptr<SharedSums> open(distributed::Group& group, Parts parts, std::vector<int64_t> sizes);

  /// Waits until all processes have computed their parts of the next bucket. So they have read the last update's sums.
  void meet() { memory_->barrier(); }
  /// Where this process puts its part `number` of a bucket, after meet() and after the bucket before was added.
  std::span<float> part(size_t bucket, size_t number) { return place(rank_, bucket, number); }
  /// Adds this process's slice [begin, end) of all parts of the bucket. With `is_rounded`, the sum is rounded to bf16.
  /// Returns when all slices are added. Collective.
  void add(size_t bucket, int64_t begin, int64_t end, bool is_rounded);
  /// The sums of a bucket, f32.
  const Tensor& total(size_t bucket) const { return totals_[bucket]; }

 private:
  SharedSums(std::shared_ptr<distributed::SharedMemory> memory, int rank, Parts parts, std::vector<int64_t> sizes);
  static int64_t staged(const Parts& parts, size_t rank, std::span<const int64_t> sizes);
  std::span<float> place(size_t rank, size_t bucket, size_t number) const;

  std::shared_ptr<distributed::SharedMemory> memory_;
  size_t rank_;
  Parts parts_;
  std::vector<int64_t> sizes_, offsets_;  // of the buckets; offsets in the sums
  std::vector<Tensor> totals_;
};

/// Rounds values to bf16, in place.
void round_to_bf16(std::span<float> values);

}  // namespace attend
