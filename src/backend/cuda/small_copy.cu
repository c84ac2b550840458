#include "backend/cuda/small_copy.h"

#include <cstring>

#include "backend/cuda/overlap.cuh"

namespace attend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kMostPut = 3584, kMostFetched = 16384;  // a kernel's arguments have up to 4 kB

template <int kBytes>
struct Words {
  uint32_t at[kBytes / 4];
};

template <int kBytes>
__global__ void __launch_bounds__(kThreads)
    put_kernel(const __grid_constant__ Words<kBytes> words, uint32_t* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = words.at[i];
}

__global__ void __launch_bounds__(kThreads) fetch_kernel(uint32_t* to, const uint32_t* from, int count) {
  wait_for_earlier();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = from[i];
}

template <int kBytes>
void launch_put(void* to, const void* from_host, size_t bytes) {
  Words<kBytes> words;
  std::memcpy(words.at, from_host, bytes);
  start_overlapped("memory.upload", put_kernel<kBytes>, {.grid = dim3(1), .threads = kThreads, .overlaps = false},
                   words, static_cast<uint32_t*>(to), static_cast<int>(bytes / 4));
}

bool is_small(const void* at, size_t bytes, size_t most) {
  return bytes <= most && bytes % 4 == 0 && reinterpret_cast<uintptr_t>(at) % 4 == 0;
}

}  // namespace

bool can_put_small(const void* to, size_t bytes) { return is_small(to, bytes, kMostPut); }
bool can_fetch_small(const void* from, size_t bytes) { return is_small(from, bytes, kMostFetched); }

void put_small(void* to, const void* from_host, size_t bytes) {
  if (bytes <= 128) return launch_put<128>(to, from_host, bytes);
  launch_put<kMostPut>(to, from_host, bytes);
}

void fetch_small(void* to_pinned, const void* from, size_t bytes) {
  start_overlapped("memory.download", fetch_kernel, {.grid = dim3(1), .threads = kThreads},
                   static_cast<uint32_t*>(to_pinned), static_cast<const uint32_t*>(from), static_cast<int>(bytes / 4));
}

}  // namespace attend::cuda
