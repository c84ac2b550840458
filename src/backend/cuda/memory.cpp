#include "backend/cuda/memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "attend/base/error.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/devices.h"
#include "backend/cuda/messages.h"

namespace attend::cuda {
namespace {

constexpr size_t kSmallest = 512;
constexpr size_t kLarge = size_t{1} << 20;  // smaller blocks are cut out of slabs
constexpr size_t kPage = size_t{2} << 20;   // the unit in which the driver maps memory
constexpr size_t kSlab = 8 * kPage;
constexpr size_t kArenaSegment = 16 * kPage;

/// Sizes come in eight steps per power of two, of at least 512 bytes, for large blocks of at least 2 MiB.
size_t size_class(size_t bytes) {
  bytes = std::max(bytes, kSmallest);
  const size_t step = std::max(bytes > kLarge ? kPage : kSmallest, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

/// cudaMalloc and cudaFree are not part of a graph that is being captured; this permits them during a capture.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

void* FreeBlocks::take(size_t bytes) {
  const auto found = blocks_.find(bytes);
  if (found == blocks_.end() || found->second.empty()) return nullptr;
  void* data = found->second.back();
  found->second.pop_back();
  bytes_ -= bytes;
  return data;
}

void FreeBlocks::put(void* data, size_t bytes) {
  blocks_[bytes].push_back(data);
  bytes_ += bytes;
}

void* Memory::allocate(size_t requested) {
  if (requested > size_t{1} << 46) throw_error<DeviceError>("cuda: cannot allocate ", requested, " bytes");
  const size_t bytes = size_class(requested);
  std::lock_guard lock(mutex_);
  void* data = nullptr;
  if (capturing_ == std::this_thread::get_id()) {
    data = arena_block(bytes);
  } else {
    data = free_.take(bytes);
    if (data == nullptr) data = fresh_block(bytes);
  }
  if (data == nullptr) throw_out_of_memory(requested);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return data;
}

void Memory::release(void* data, size_t requested) {
  const size_t bytes = size_class(requested);
  std::lock_guard lock(mutex_);
  live_ -= bytes;
  if (arena_.owns(data))
    arena_.put(data, bytes);
  else
    free_.put(data, bytes);
}

void* Memory::fresh_block(size_t bytes) { return bytes < kLarge ? slab_block(bytes) : device_block(bytes); }

/// Cuts a block out of a slab. Such blocks are reused but never given back to the driver.
void* Memory::slab_block(size_t bytes) {
  if (slab_left_ < bytes) {
    auto* slab = static_cast<std::byte*>(device_block(kSlab));
    if (slab == nullptr) return nullptr;
    slab_ = slab;
    slab_left_ = kSlab;
  }
  void* data = std::exchange(slab_, slab_ + bytes);
  slab_left_ -= bytes;
  return data;
}

void* Memory::arena_block(size_t bytes) {
  if (void* data = arena_.take(bytes)) return data;
  const size_t needed = std::max(kArenaSegment, (bytes + kPage - 1) / kPage * kPage);
  void* segment = device_block(needed);
  if (segment == nullptr) return nullptr;
  arena_.add_segment(segment, needed);
  return arena_.take(bytes);
}

/// Memory from the driver; null if there is none, even after all cached blocks have been given back.
void* Memory::device_block(size_t bytes) {
  const OutsideCapture outside;
  for (const bool is_last : {false, true}) {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaSuccess) {
      reserved_ += bytes;
      return data;
    }
    cudaGetLastError();  // a failed allocation must not be reported by the next launch
    if (status != cudaErrorMemoryAllocation) check(status, "memory.allocate");
    if (!is_last) free_cached();
  }
  return nullptr;
}

/// Gives all cached large blocks back to the driver. A capture does not permit that: cudaFree waits for the device.
void Memory::free_cached() {
  if (current().is_capturing) return;
  wait_for_stream("memory.allocate");
  const size_t before = free_.bytes();
  free_.remove(kLarge, [](void* data) { check(cudaFree(data), "memory.release"); });
  reserved_ -= before - free_.bytes();
  if (graphs_ == 0) free_arena();
}

/// Gives the arena back to the driver, unless tensors that were created during a capture are still held.
void Memory::free_arena() {
  if (!arena_.is_unused() || current().is_capturing) return;
  arena_.remove_segments([&](void* data, size_t bytes) {
    cudaFree(data);
    reserved_ -= bytes;
  });
  cudaGetLastError();
}

void Memory::throw_out_of_memory(size_t requested) const {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw_error<DeviceError>(out_of_memory_text(
      device_index(),
      {.requested = requested, .held = live_, .cached = reserved_ - live_, .free = free, .total = total}));
}

size_t Memory::live_bytes() const {
  std::lock_guard lock(mutex_);
  return live_;
}

size_t Memory::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void Memory::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = live_;
}

void Memory::begin_capture() {
  std::lock_guard lock(mutex_);
  // The blocks that the same work used before the capture are cached, and the arena needs as much again.
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "graph.begin");
  if (free < free_.bytes()) free_cached();
  capturing_ = std::this_thread::get_id();
}

void Memory::end_capture() {
  std::lock_guard lock(mutex_);
  capturing_ = {};
}

void Memory::add_graph() {
  std::lock_guard lock(mutex_);
  ++graphs_;
}

void Memory::remove_graph() {
  std::lock_guard lock(mutex_);
  if (--graphs_ == 0) free_arena();
}

void* allocate(size_t bytes) { return current().memory.allocate(bytes); }
void release(void* data, size_t bytes) { current().memory.release(data, bytes); }
size_t live_bytes() { return current().memory.live_bytes(); }
size_t peak_bytes() { return current().memory.peak_bytes(); }
void reset_peak() { current().memory.reset_peak(); }

}  // namespace attend::cuda
