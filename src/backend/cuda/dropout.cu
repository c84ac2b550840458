#include "backend/cuda/cuda.h"
#include "backend/cuda/random.cuh"

namespace attend::cuda {
namespace {

// y = x · scale if dropout keeps the element, else 0 (also if x is NaN or ∞). A thread has the eight elements of a
// block. Floor: memory bandwidth. Philox takes about 6 instructions per element, of the 28 that 16-bit elements leave
// time for.
template <class T>
__global__ void __launch_bounds__(kRandomThreads)
    dropout_kernel(RandomStream random, uint32_t thresholds, Sum<T> scale, RandomShape shape, const T* x,
                   int64_t x_stride, T* y, int64_t y_stride) {
  constexpr int kN = kDropGroup;
  const int64_t first = (int64_t{blockIdx.x} * kRandomThreads + threadIdx.x) * kN;
  if (first >= shape.count) return;
  random = settled(random);
  const uint32_t kept = kept_of_eight(philox_words<kDropRounds>(random, static_cast<uint64_t>(first / kN)), thresholds);
  const auto drop = [&](T value, int i) {
    return (kept >> i & 1) != 0 ? narrow<T>(wide(value) * scale) : narrow<T>(Sum<T>{0});
  };
  if (shape.whole) {
    const int64_t row = shape.cols == shape.count ? 0 : first / shape.cols, col = first - row * shape.cols;
    const int64_t valid = shape.count - first;
    auto pack = load_pack<kN>(x + row * x_stride + col, valid, true);
#pragma unroll
    for (int i = 0; i < kN; ++i) pack.at[i] = drop(pack.at[i], i);
    store_pack<kN>(y + row * y_stride + col, pack, valid, true);
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int64_t at = first + i, row = at / shape.cols, col = at % shape.cols;
    if (at < shape.count) y[row * y_stride + col] = drop(x[row * x_stride + col], i);
  }
}

}  // namespace

void dropout(RandomStream stream_of, double p, ConstRows x, Rows y) {
  if (y.numel() == 0) return;
  with_float(y.dtype, "dropout", [&](auto type) {
    using T = decltype(type);
    const auto scale = p < 1 ? static_cast<Sum<T>>(1 / (1 - p)) : Sum<T>{0};
    dropout_kernel<T><<<random_grid(y.numel(), kDropGroup), kRandomThreads, 0, stream()>>>(
        stream_of, two_thresholds(drop_threshold(p)), scale, random_shape<kDropGroup>(y, x),
        static_cast<const T*>(x.data), x.stride, static_cast<T*>(y.data), y.stride);
  });
  check_launch("dropout");
}

}  // namespace attend::cuda
