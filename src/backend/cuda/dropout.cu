#include "backend/cuda/cuda.h"
#include "backend/cuda/random.cuh"

namespace attend::cuda {
namespace {

// y = x · scale if the element's random word is at least the threshold, else 0 (also if x is NaN or ∞). Floor: memory
// bandwidth. Philox takes about 16 instructions per element, of the 28 that 16-bit elements leave time for.
template <class T>
__global__ void __launch_bounds__(kRandomThreads)
    dropout_kernel(RandomStream random, uint32_t threshold, Sum<T> scale, RandomShape shape, const T* x,
                   int64_t x_stride, T* y, int64_t y_stride) {
  constexpr int kN = kRandomPack<T>;
  const int64_t first = (int64_t{blockIdx.x} * kRandomThreads + threadIdx.x) * kN;
  if (first >= shape.count) return;
  random = settled(random);
  const auto drop = [&](T value, uint32_t word) {
    return word >= threshold ? narrow<T>(wide(value) * scale) : narrow<T>(Sum<T>{0});
  };
  uint32_t words[kN];
  if (shape.whole) {
    const int64_t row = shape.cols == shape.count ? 0 : first / shape.cols, col = first - row * shape.cols;
    const int64_t valid = shape.count - first;
    auto pack = load_pack<kN>(x + row * x_stride + col, valid, true);
    random_words(random, first, words);
#pragma unroll
    for (int i = 0; i < kN; ++i) pack.at[i] = drop(pack.at[i], words[i]);
    store_pack<kN>(y + row * y_stride + col, pack, valid, true);
    return;
  }
  random_words(random, first, words);
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t at = first + i, row = at / shape.cols, col = at % shape.cols;
    if (at < shape.count) y[row * y_stride + col] = drop(x[row * x_stride + col], words[i]);
  }
}

}  // namespace

void dropout(RandomStream stream_of, double p, ConstRows x, Rows y) {
  if (y.numel() == 0) return;
  with_float(y.dtype, "dropout", [&](auto type) {
    using T = decltype(type);
    const auto scale = p < 1 ? static_cast<Sum<T>>(1 / (1 - p)) : Sum<T>{0};
    dropout_kernel<T><<<random_grid(y.numel(), kRandomPack<T>), kRandomThreads, 0, stream()>>>(
        stream_of, drop_threshold(p), scale, random_shape<T>(y, x), static_cast<const T*>(x.data), x.stride,
        static_cast<T*>(y.data), y.stride);
  });
  check_launch("dropout");
}

}  // namespace attend::cuda
