#pragma once

#include <cstddef>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/cuda/arena.h"

namespace attend::cuda {

/// Free blocks by size.
class FreeBlocks {
 public:
  void* take(size_t bytes);  ///< null if there is none of this size
  void put(void* data, size_t bytes);
  size_t bytes() const { return bytes_; }
  /// Calls free(data) on all blocks of at least `least` bytes and forgets them.
  template <class F>
  void remove(size_t least, F&& free) {
    for (auto& [bytes, blocks] : blocks_) {
      if (bytes < least) continue;
      for (void* data : blocks) free(data);
      bytes_ -= bytes * blocks.size();
      blocks.clear();
    }
  }

 private:
  std::unordered_map<size_t, std::vector<void*>> blocks_;
  size_t bytes_ = 0;
};

/// The caching allocator of one device. Released blocks are kept and reused without waiting, because all work of the
/// device runs on one stream. Thread-safe. The device must be the current one of the calling thread.
class Memory {
 public:
  void* allocate(size_t requested);
  void release(void* data, size_t requested);
  size_t live_bytes() const;
  size_t peak_bytes() const;
  void reset_peak();

  /// Between begin_capture() and end_capture(), the calling thread allocates from the arena of graphs. The blocks
  /// return there, whenever they are released. The arena is kept as long as there are graphs: add_graph() and
  /// remove_graph() count them.
  void begin_capture();
  void end_capture();
  void add_graph();
  void remove_graph();

 private:
  void* fresh_block(size_t bytes);
  void* slab_block(size_t bytes);
  void* arena_block(size_t bytes);
  void* device_block(size_t bytes);
  void free_cached();
  void free_arena();
  [[noreturn]] void throw_out_of_memory(size_t requested) const;

  mutable std::mutex mutex_;
  FreeBlocks free_;
  Arena arena_;
  std::thread::id capturing_;  // the thread that is capturing a graph
  int graphs_ = 0;
  std::byte* slab_ = nullptr;  // the unused part of the last slab
  size_t slab_left_ = 0;
  size_t live_ = 0, peak_ = 0;
  size_t reserved_ = 0;  // bytes from cudaMalloc
};

}  // namespace attend::cuda
