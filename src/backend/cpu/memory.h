#pragma once

#include <cstddef>
#include <cstdint>

namespace attend::cpu {

/// Host memory, 64-byte aligned, on huge pages where large. Freed blocks are kept for reuse: fresh pages from the
/// system cost more to zero than most kernels take to fill them.
void* allocate(size_t bytes);
void release(void* data, size_t bytes);

size_t live_bytes();
size_t peak_bytes();
void reset_peak();

/// Uninitialised working memory of a kernel, counted like any other.
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
