#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "attend/base/error.h"

namespace attend::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallest = 256;
constexpr size_t kCacheLimit = size_t{2} << 30;  // idle bytes kept for reuse

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaching = false;  // let the sanitizer see every use after free
#else
constexpr bool kCaching = true;
#endif

/// Sizes come in eight steps per power of two, so a reused block wastes at most an eighth.
size_t size_class(size_t bytes) {
  bytes = std::max(bytes, kSmallest);
  const size_t step = std::max(kSmallest, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

struct Cache {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> blocks;
  size_t idle = 0;
};

/// Never destroyed: tensors with static lifetime are released after any destructor of ours would have run.
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
  const auto found = cache().blocks.find(bytes);
  if (found == cache().blocks.end() || found->second.empty()) return nullptr;
  void* data = found->second.back();
  found->second.pop_back();
  cache().idle -= bytes;
  return data;
}

}  // namespace

void* allocate(size_t requested) {
  require<DeviceError>(requested <= (size_t{1} << 46), "cpu: cannot allocate ", requested, " bytes");
  const size_t bytes = size_class(requested);
  void* data = take_cached(bytes);
  if (data == nullptr) {
    const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    require<DeviceError>(data != nullptr, "cpu: out of memory allocating ", requested, " bytes");
    if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  }
  count_allocation(bytes);
  return data;
}

void release(void* data, size_t requested) {
  const size_t bytes = size_class(requested);
  live.fetch_sub(bytes);
  if (kCaching) {
    std::lock_guard lock(cache().mutex);
    if (cache().idle + bytes <= kCacheLimit) {
      cache().blocks[bytes].push_back(data);
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
