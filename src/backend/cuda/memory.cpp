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

bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream(), &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

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

void FreeBlocks::put_all(FreeBlocks&& others) {
  for (auto& [bytes, blocks] : others.blocks_) {
    std::vector<void*>& mine = blocks_[bytes];
    mine.insert(mine.end(), blocks.begin(), blocks.end());
  }
  bytes_ += others.bytes_;
  others.blocks_.clear();
  others.bytes_ = 0;
}

void* Memory::allocate(size_t requested) {
  if (requested > size_t{1} << 46) throw_error<DeviceError>("cuda: cannot allocate ", requested, " bytes");
  const size_t bytes = size_class(requested);
  std::lock_guard lock(mutex_);
  void* data = is_holding_ ? held_.take(bytes) : nullptr;
  if (data == nullptr) data = free_.take(bytes);
  if (data == nullptr) data = fresh_block(bytes);
  if (data == nullptr) throw_out_of_memory(requested);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return data;
}

void Memory::release(void* data, size_t requested) {
  const size_t bytes = size_class(requested);
  std::lock_guard lock(mutex_);
  live_ -= bytes;
  (is_holding_ ? held_ : free_).put(data, bytes);
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

/// Gives all cached large blocks back to the driver. During a capture they must be kept: kernels that were captured
/// before may use them.
void Memory::free_cached() {
  if (is_capturing()) return;
  wait_for_stream("memory.allocate");
  const size_t before = free_.bytes();
  free_.remove(kLarge, [](void* data) { check(cudaFree(data), "memory.release"); });
  reserved_ -= before - free_.bytes();
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

void Memory::hold() {
  std::lock_guard lock(mutex_);
  is_holding_ = true;
}

FreeBlocks Memory::take_held() {
  std::lock_guard lock(mutex_);
  is_holding_ = false;
  return std::exchange(held_, FreeBlocks{});
}

void Memory::give_back(FreeBlocks&& blocks) {
  std::lock_guard lock(mutex_);
  free_.put_all(std::move(blocks));
}

void* allocate(size_t bytes) { return current().memory.allocate(bytes); }
void release(void* data, size_t bytes) { current().memory.release(data, bytes); }
size_t live_bytes() { return current().memory.live_bytes(); }
size_t peak_bytes() { return current().memory.peak_bytes(); }
void reset_peak() { current().memory.reset_peak(); }

}  // namespace attend::cuda
