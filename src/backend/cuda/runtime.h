#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// What every CUDA kernel's host function needs: the stream, checks, and scratch memory.
namespace attend {
struct Kernels;
}
namespace attend::cuda {

/// The stream on which all work of the current device runs.
cudaStream_t stream();

/// Throws DeviceError, which names `what`, unless status is cudaSuccess.
void check(cudaError_t status, const char* what);
/// Checks the launch that has just been made, and counts it. If the environment variable ATTEND_CUDA_CHECK is set,
/// waits for the kernel, so that an error inside it is reported under its name.
void check_launch(const char* kernel);
/// Waits for all work on the stream, and counts the wait. Throws DeviceError, which names `what`, if a kernel failed or
/// a graph is being captured.
void wait_for_stream(const char* what);
/// Throws DeviceError, which names `what`, if a graph is being captured.
void require_no_capture(const char* what);

int device_index();     ///< the number of the current device
int multiprocessors();  ///< of the current device
int architecture();     ///< of the current device: 80 for sm_80, 90 for sm_90

/// The kernels of the CPU, which work on host memory.
const Kernels& host_kernels();

/// Device memory, at least 256-byte aligned. `release` may be called while work that was launched before still uses the
/// memory: the memory is reused only by work that is launched later, on the same stream.
void* allocate(size_t bytes);
void release(void* data, size_t bytes);

/// Device memory until the end of the scope. Work that was launched before may still use it then: the allocator gives
/// memory back in the order of the stream.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(T)), data_(bytes_ > 0 ? allocate(bytes_) : nullptr) {}
  ~Scratch() {
    if (data_ != nullptr) release(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace attend::cuda
