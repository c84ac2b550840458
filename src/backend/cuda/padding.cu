#include "backend/cuda/cuda.h"
#include "backend/cuda/types.cuh"

namespace attend::cuda {
namespace {

constexpr int kThreads = 256;

/// A CTA for each position of a sequence. Floor: x is read and y written once.
template <class T>
__global__ void __launch_bounds__(kThreads)
    zero_padding_kernel(const T* x, const int64_t* lengths, T* y, int64_t positions, int64_t length, int64_t width) {
  for (int64_t position = blockIdx.x; position < positions; position += gridDim.x) {
    const bool is_kept = position % length < lengths[position / length];
    for (int64_t i = threadIdx.x; i < width; i += kThreads) {
      y[position * width + i] = is_kept ? x[position * width + i] : T{0};
    }
  }
}

}  // namespace

void zero_padding(ConstView x, ConstRows lengths, View y) {
  const int64_t positions = x.shape[0] * x.shape[1];
  if (x.shape.numel() == 0) return;
  with_bits(x.dtype, [&](auto type) {
    using T = decltype(type);
    zero_padding_kernel<T><<<grid_size(positions), kThreads, 0, stream()>>>(
        static_cast<const T*>(x.data), static_cast<const int64_t*>(lengths.data), static_cast<T*>(y.data), positions,
        x.shape[1], x.shape[2]);
  });
  check_launch("zero_padding");
}

}  // namespace attend::cuda
