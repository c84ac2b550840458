#pragma once

#include <cstddef>
#include <cstdint>

namespace attend::cpu {

/// Allocates host memory, 64-byte aligned; large blocks lie on huge pages. Released blocks are kept for reuse, because
/// zeroing fresh pages from the system takes longer than most kernels need to fill them.
void* allocate(size_t bytes);
void release(void* data, size_t bytes);

size_t live_bytes();
size_t peak_bytes();
void reset_peak();

/// Uninitialised working memory of a kernel. It counts towards live_bytes() and peak_bytes().
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)), data_(allocate(bytes_)) {}
  ~Scratch() { release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace attend::cpu
