#include "backend/cuda/arena.h"

#include <iterator>

namespace attend::cuda {

void Arena::add_segment(void* data, size_t bytes) {
  segments_.emplace(static_cast<std::byte*>(data), bytes);
  free_.emplace(static_cast<std::byte*>(data), bytes);
}

void* Arena::take(size_t bytes) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->second >= bytes && (best == free_.end() || block->second < best->second)) best = block;
  }
  if (best == free_.end()) return nullptr;
  std::byte* const data = best->first;
  const size_t rest = best->second - bytes;
  free_.erase(best);
  if (rest > 0) free_.emplace(data + bytes, rest);
  used_ += bytes;
  return data;
}

/// Joins the block with free neighbours of the same segment.
void Arena::put(void* data, size_t bytes) {
  used_ -= bytes;
  auto block = free_.emplace(static_cast<std::byte*>(data), bytes).first;
  const auto joins = [&](auto left, auto right) {
    return left->first + left->second == right->first && !segments_.contains(right->first);
  };
  if (const auto next = std::next(block); next != free_.end() && joins(block, next)) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block == free_.begin()) return;
  if (const auto before = std::prev(block); joins(before, block)) {
    before->second += block->second;
    free_.erase(block);
  }
}

bool Arena::owns(const void* data) const {
  if (segments_.empty()) return false;
  auto* const place = static_cast<std::byte*>(const_cast<void*>(data));
  const auto after = segments_.upper_bound(place);
  if (after == segments_.begin()) return false;
  const auto segment = std::prev(after);
  return place < segment->first + segment->second;
}

}  // namespace attend::cuda
