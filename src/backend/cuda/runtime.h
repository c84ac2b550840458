#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// What every CUDA kernel's host function needs: the stream, checks, and scratch memory.
namespace attend::cuda {

/// The stream on which all work of the current device runs.
cudaStream_t stream();

/// Throws DeviceError, which names `what`, unless status is cudaSuccess.
void check(cudaError_t status, const char* what);
/// Checks the launch that has just been made.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

int multiprocessors();  ///< of the current device
int architecture();     ///< of the current device: 80 for sm_80, 90 for sm_90

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
