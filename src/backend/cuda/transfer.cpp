#include "backend/cuda/transfer.h"

#include <algorithm>
#include <cstring>

#include "attend/base/error.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/devices.h"

namespace attend::cuda {
namespace {

constexpr size_t kPart = size_t{4} << 20;
constexpr size_t kSmallDownload = size_t{64} << 10;  // larger ones go straight to the host's memory
constexpr size_t kAlignment = 64;

}  // namespace

void Transfer::make_ring() {
  if (received_ != nullptr) return;
  for (Part& part : ring_) {
    if (part.data == nullptr) check(cudaMallocHost(reinterpret_cast<void**>(&part.data), kPart), "memory.upload");
    if (part.sent == nullptr) check(cudaEventCreateWithFlags(&part.sent, cudaEventDisableTiming), "memory.upload");
  }
  check(cudaMallocHost(reinterpret_cast<void**>(&received_), kSmallDownload), "memory.download");
}

/// Ends the part that is being filled and waits until the next one has been read.
void Transfer::next_part() {
  check(cudaEventRecord(ring_[part_].sent, stream()), "memory.upload");
  part_ = (part_ + 1) % ring_.size();
  used_ = 0;
  if (cudaEventQuery(ring_[part_].sent) == cudaSuccess) return;  // also if the part was never used
  cudaGetLastError();                                            // cudaErrorNotReady is no error
  counters().synchronizations.fetch_add(1, std::memory_order_relaxed);
  check(cudaEventSynchronize(ring_[part_].sent), "memory.upload");
}

void Transfer::upload(void* to, const void* from_host, size_t bytes) {
  require_no_capture("memory.upload");  // a graph would read the staging memory again at every replay
  std::lock_guard lock(mutex_);
  make_ring();
  while (bytes > 0) {
    if (used_ == kPart) next_part();
    if (used_ > 0 && bytes <= kPart && used_ + bytes > kPart) next_part();  // a small copy stays in one piece
    const size_t count = std::min(bytes, kPart - used_);
    std::byte* staged = ring_[part_].data + used_;
    std::memcpy(staged, from_host, count);
    check(cudaMemcpyAsync(to, staged, count, cudaMemcpyHostToDevice, stream()), "memory.upload");
    used_ = std::min(kPart, (used_ + count + kAlignment - 1) / kAlignment * kAlignment);
    to = static_cast<std::byte*>(to) + count;
    from_host = static_cast<const std::byte*>(from_host) + count;
    bytes -= count;
  }
}

void Transfer::download(void* to_host, const void* from, size_t bytes) {
  if (bytes == 0) return;
  require_no_capture("memory.download");
  if (bytes > kSmallDownload) {
    check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream()), "memory.download");
    return wait_for_stream("memory.download");
  }
  std::lock_guard lock(mutex_);
  make_ring();
  check(cudaMemcpyAsync(received_, from, bytes, cudaMemcpyDeviceToHost, stream()), "memory.download");
  wait_for_stream("memory.download");
  std::memcpy(to_host, received_, bytes);
}

void upload(void* to, const void* from_host, size_t bytes) { current().transfer.upload(to, from_host, bytes); }
void download(void* to_host, const void* from, size_t bytes) { current().transfer.download(to_host, from, bytes); }

}  // namespace attend::cuda
