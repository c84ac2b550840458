#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace attend::cuda {

/// Copies between host and device through pinned memory, which the device reads and writes while the host goes on.
/// Thread-safe. The device must be the current one of the calling thread.
class Transfer {
 public:
  /// The host memory may be reused when the call returns; the copy may still be under way.
  void upload(void* to, const void* from_host, size_t bytes);
  /// Waits for the copy.
  void download(void* to_host, const void* from, size_t bytes);

 private:
  /// A part of the ring. `sent` is reached when the device has read the part.
  struct Part {
    std::byte* data = nullptr;
    cudaEvent_t sent = nullptr;
  };
  void make_ring();
  void next_part();

  std::mutex mutex_;
  std::array<Part, 4> ring_;
  size_t part_ = 0, used_ = 0;  // the part that is being filled, and how much of it is
  std::byte* received_ = nullptr;
};

}  // namespace attend::cuda
