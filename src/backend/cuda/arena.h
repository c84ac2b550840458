#pragma once

#include <cstddef>
#include <map>

namespace attend::cuda {

/// The memory that captured graphs work in. Blocks are cut out of large segments, and neighbouring free blocks are
/// joined, so that graphs of different shapes can share the memory. Not thread-safe.
class Arena {
 public:
  void add_segment(void* data, size_t bytes);
  /// The smallest free block that is large enough, cut to size; null if there is none.
  void* take(size_t bytes);
  void put(void* data, size_t bytes);
  bool owns(const void* data) const;
  bool is_unused() const { return used_ == 0; }
  /// Calls free(data, bytes) on all segments and forgets them. No block may be in use.
  template <class F>
  void remove_segments(F&& free) {
    for (const auto& [data, bytes] : segments_) free(data, bytes);
    segments_.clear();
    free_.clear();
  }

 private:
  std::map<std::byte*, size_t> segments_, free_;
  size_t used_ = 0;
};

}  // namespace attend::cuda
