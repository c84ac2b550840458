#include <memory>

#include "backend/cuda/cuda.h"
#include "backend/cuda/runtime.h"

namespace attend::cuda {

/// Drawn on the CPU, so that initial weights have the same bits on all devices. 16-bit values are rounded from f32.
void normal(RandomStream random, double mean, double deviation, Rows y) {
  if (y.numel() == 0) return;
  require<DeviceError>(random.base == nullptr, "normal: a random stream with a base is not supported on a GPU");
  const DType type = y.dtype == DType::f64 ? DType::f64 : DType::f32;
  const size_t bytes = static_cast<size_t>(y.numel()) * size_of(type);
  const auto drawn = std::make_unique_for_overwrite<std::byte[]>(bytes);
  host_kernels().random.normal(random, mean, deviation, {drawn.get(), type, y.rows, y.cols, y.cols});
  if (y.dtype == type && (y.stride == y.cols || y.rows == 1)) return upload(y.data, drawn.get(), bytes);
  const Scratch<std::byte> dense(static_cast<int64_t>(bytes));
  upload(dense.data(), drawn.get(), bytes);
  copy(ConstView{dense.data(), type, {y.rows, y.cols}, {y.cols, 1}},
       View{y.data, y.dtype, {y.rows, y.cols}, {y.stride, 1}});
}

}  // namespace attend::cuda
