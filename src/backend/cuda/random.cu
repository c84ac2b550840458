#include "backend/cuda/cuda.h"
#include "backend/cuda/random.cuh"

namespace attend::cuda {
namespace {

/// low + range · u in double. The CPU's kernels fuse the product and the sum for f32 and round both for f64.
template <class T>
__device__ T uniform_value(uint32_t word, double low, double range) {
  const double u = static_cast<double>(static_cast<float>(word >> 8) * 0x1p-24f);
  if constexpr (std::is_same_v<T, double>)
    return __dadd_rn(low, __dmul_rn(range, u));
  else
    return narrow<T>(fma(range, u, low));
}

template <class T>
__global__ void __launch_bounds__(kRandomThreads)
    uniform_kernel(RandomStream random, double low, double range, RandomShape shape, T* y, int64_t stride) {
  constexpr int kN = kRandomPack<T>;
  const int64_t first = (int64_t{blockIdx.x} * kRandomThreads + threadIdx.x) * kN;
  if (first >= shape.count) return;
  random = settled(random);
  uint32_t words[kN];
  random_words(random, first, words);
  Pack<T, kN> result;
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    result.at[i] = uniform_value<T>(words[i], low, range);
  }
  if (shape.whole) {
    store_pack<kN>(y + first / shape.cols * stride + first % shape.cols, result, shape.count - first, true);
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t at = first + i;
    if (at < shape.count) y[at / shape.cols * stride + at % shape.cols] = result.at[i];
  }
}

}  // namespace

void uniform(RandomStream stream_of, double low, double high, Rows y) {
  if (y.numel() == 0) return;
  with_float(y.dtype, "uniform", [&](auto type) {
    using T = decltype(type);
    uniform_kernel<T><<<random_grid(y.numel(), kRandomPack<T>), kRandomThreads, 0, stream()>>>(
        stream_of, low, high - low, random_shape<kRandomPack<T>>(y), static_cast<T*>(y.data), y.stride);
  });
  check_launch("uniform");
}

}  // namespace attend::cuda
