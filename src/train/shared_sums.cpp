#include "train/shared_sums.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "attend/tensor/creation.h"
#include "distributed/tree_sum.h"

namespace attend {
namespace {

/// Values that are added at once: the parts of this many values fit a core's cache.
constexpr int64_t kBlock = 8192;
constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

Tensor view_of(std::span<const float> values, std::shared_ptr<const void> owner) {
  const auto size = static_cast<int64_t>(values.size());
  return {
      std::make_shared<Storage>(values.data(), values.size_bytes(), kCpu, std::move(owner)), DType::f32, {size}, {1}};
}

}  // namespace

void round_to_bf16(std::span<float> values) {
  const Tensor view = view_of(values, std::make_shared<int>());
  const std::vector<float> rounded = to(to(view, DType::bf16), DType::f32).to_vector<float>();
  std::ranges::copy(rounded, values.begin());
}

std::unique_ptr<SharedSums> SharedSums::open(distributed::Group& group, Parts parts, std::vector<int64_t> sizes) {
  const auto rank = static_cast<size_t>(group.rank());
  const int64_t sums = rank == 0 ? std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) : 0;
  std::shared_ptr memory = distributed::SharedMemory::open(group, (sums + staged(parts, rank, sizes)) * kFloat);
  if (!memory) return nullptr;
  return std::unique_ptr<SharedSums>(
      new SharedSums(std::move(memory), group.rank(), std::move(parts), std::move(sizes)));
}

SharedSums::SharedSums(std::shared_ptr<distributed::SharedMemory> memory, int rank, Parts parts,
                       std::vector<int64_t> sizes)
    : memory_(std::move(memory)), rank_(static_cast<size_t>(rank)), parts_(std::move(parts)), sizes_(std::move(sizes)) {
  offsets_.resize(sizes_.size() + 1);
  std::partial_sum(sizes_.begin(), sizes_.end(), offsets_.begin() + 1);
  for (size_t bucket = 0; bucket < sizes_.size(); ++bucket) totals_.push_back(view_of(place(0, bucket, 0), memory_));
}

/// The number of values of a rank's parts of the largest bucket, without those that become the sums.
int64_t SharedSums::staged(const Parts& parts, size_t rank, std::span<const int64_t> sizes) {
  return (std::ssize(parts[rank]) - (rank == 0 ? 1 : 0)) * std::ranges::max(sizes);
}

/// An area holds the sums, if it is rank 0's, and then the other parts of one bucket at a time.
std::span<float> SharedSums::place(size_t rank, size_t bucket, size_t number) const {
  int64_t offset = 0;
  if (rank > 0) {
    offset = static_cast<int64_t>(number) * sizes_[bucket];
  } else if (number == 0) {
    offset = offsets_[bucket];
  } else {
    offset = offsets_.back() + static_cast<int64_t>(number - 1) * sizes_[bucket];
  }
  const distributed::Bytes area = memory_->area(static_cast<int>(rank));
  return {reinterpret_cast<float*>(area.data()) + offset, static_cast<size_t>(sizes_[bucket])};
}

void SharedSums::add(size_t bucket, int64_t begin, int64_t end, bool is_rounded) {
  memory_->barrier();
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    const auto add_block = [count](float* left, const float* right) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) left[i] += right[i];
    };
    distributed::TreeSum<float*> sum;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      for (size_t number = 0; number < parts_[rank].size(); ++number) {
        const auto& [first, size] = parts_[rank][number];
        sum.push({first, size, place(rank, bucket, number).data() + at}, add_block);
      }
    }
    sum.total(add_block);
  }
  if (is_rounded)
    round_to_bf16(place(0, bucket, 0).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  memory_->barrier();
}

}  // namespace attend
