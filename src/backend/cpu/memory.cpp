#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "attend/base/error.h"

namespace attend::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallest = 256;
constexpr size_t kMedium = size_t{64} << 10;  // blocks from this size up to a huge page are cut out of slabs
constexpr size_t kSlab = 4 * kHugePage;
constexpr size_t kCacheLimit = size_t{2} << 30;  // idle bytes kept for reuse

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;  // lets the sanitizer detect every use after free
#else
constexpr bool kCaching = true;
#endif

/// Sizes come in eight steps per power of two, so a reused block wastes at most an eighth.
size_t class_step(size_t bytes) { return std::max(kSmallest, std::bit_floor(bytes) / 8); }

size_t size_class(size_t bytes) {
  bytes = std::max(bytes, kSmallest);
  const size_t step = class_step(bytes);
  return (bytes + step - 1) / step * step;
}

/// The index of a size class; `bytes` must be a result of size_class().
size_t class_index(size_t bytes) {
  return static_cast<size_t>(std::bit_width(bytes) - 1) * 8 + (bytes - std::bit_floor(bytes)) / class_step(bytes);
}

struct Cache {
  std::mutex mutex;
  std::array<std::vector<void*>, 64 * 8> blocks;  // by class_index
  size_t idle = 0;
  std::byte* slab = nullptr;  // the unused part of the last slab
  size_t slab_left = 0;
};

/// Never destroyed: tensors with static lifetime may be released after the destructors of this library's statics.
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

std::atomic<size_t> live{0}, peak{0};

void count_allocation(size_t bytes) {
  const size_t now = live.fetch_add(bytes) + bytes;
  size_t seen = peak.load();
  while (seen < now && !peak.compare_exchange_weak(seen, now)) {
  }
}

void* take_cached(size_t bytes) {
  std::lock_guard lock(cache().mutex);
  std::vector<void*>& blocks = cache().blocks[class_index(bytes)];
  if (blocks.empty()) return nullptr;
  void* data = blocks.back();
  blocks.pop_back();
  cache().idle -= bytes;
  return data;
}

void* huge_block(size_t bytes) {
  void* data = std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage);
  if (data != nullptr) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

/// Cuts a block out of a slab, so that the matrices of a small model lie on huge pages, too: streaming reads from 4 KiB
/// pages are a fifth slower. Such blocks are reused but never returned to the system.
void* slab_block(size_t bytes) {
  std::lock_guard lock(cache().mutex);
  if (cache().slab_left < bytes) {
    void* slab = huge_block(kSlab);
    if (slab == nullptr) return nullptr;
    cache().slab = static_cast<std::byte*>(slab);
    cache().slab_left = kSlab;
  }
  void* data = cache().slab;
  cache().slab += bytes;
  cache().slab_left -= bytes;
  return data;
}

bool is_of_slab(size_t bytes) { return kCaching && bytes >= kMedium && bytes < kHugePage; }

}  // namespace

void* allocate(size_t requested) {
  require<DeviceError>(requested <= (size_t{1} << 46), "cpu: cannot allocate ", requested, " bytes");
  const size_t bytes = size_class(requested);
  void* data = take_cached(bytes);
  if (data == nullptr) {
    data = is_of_slab(bytes)    ? slab_block(bytes)
           : bytes >= kHugePage ? huge_block(bytes)
                                : std::aligned_alloc(64, bytes);
    require<DeviceError>(data != nullptr, "cpu: out of memory allocating ", requested, " bytes");
  }
  count_allocation(bytes);
  return data;
}

void release(void* data, size_t requested) {
  const size_t bytes = size_class(requested);
  live.fetch_sub(bytes);
  if (kCaching) {
    std::lock_guard lock(cache().mutex);
    if (cache().idle + bytes <= kCacheLimit || is_of_slab(bytes)) {
      cache().blocks[class_index(bytes)].push_back(data);
      cache().idle += bytes;
      return;
    }
  }
  std::free(data);
}

size_t live_bytes() { return live.load(); }
size_t peak_bytes() { return peak.load(); }
void reset_peak() { peak.store(live.load()); }

}  // namespace attend::cpu
