#include <algorithm>
#include <limits>

#include "backend/cuda/cuda.h"
#include "backend/cuda/types.cuh"

// The largest values of each row. A value and its column form one 64-bit key; keys are unique, so their order is total.
// A block finds the best keys of a part of a row in rounds: each round is the maximum of the keys below the last one. A
// second kernel does the same with the best keys of all parts. Floor: reading x once; a round takes less than a
// microsecond.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kWarp = 32, kHeld = 16, kPart = kThreads * kHeld;

/// Keys compare as values do, −0 as 0, and the smaller column wins a tie. 0 stands for no value: NaN.
__device__ uint64_t key_of(float value, int64_t column) {
  if (value != value) return 0;
  const uint32_t bits = __float_as_uint(value == 0 ? 0.0f : value);
  const uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{order} << 32 | (0xffffffffu - static_cast<uint32_t>(column));
}

__device__ uint64_t block_max(uint64_t key, uint64_t* shared) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(0xffffffffu, key, distance);
    key = key > other ? key : other;
  }
  __syncthreads();  // the last use of shared is over
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = key;
  __syncthreads();
  key = shared[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / kWarp; ++warp) key = key > shared[warp] ? key : shared[warp];
  return key;
}

/// Writes the best keys of one part of a row to found [rows, parts, count].
__global__ void __launch_bounds__(kThreads)
    part_kernel(const float* x, int64_t stride, int64_t cols, int count, uint64_t* found) {
  __shared__ uint64_t shared[kThreads / kWarp];
  const int64_t first = int64_t{blockIdx.x} * kPart;
  const float* row = x + blockIdx.y * stride;
  uint64_t keys[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int64_t column = first + i * kThreads + threadIdx.x;
    keys[i] = column < cols ? key_of(row[column], column) : 0;
  }
  uint64_t last = ~uint64_t{0};
  for (int round = 0; round < count; ++round) {
    uint64_t best = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) best = keys[i] < last && keys[i] > best ? keys[i] : best;
    last = block_max(best, shared);
    if (threadIdx.x == 0) found[(int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * count + round] = last;
  }
}

/// Merges the parts of a row.
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const uint64_t* found, int64_t parts, int count, const float* x, int64_t stride, float* values,
                 int64_t value_stride, float* columns, int64_t column_stride) {
  __shared__ uint64_t shared[kThreads / kWarp];
  const int64_t row = blockIdx.x, candidates = parts * count;
  const uint64_t* own = found + row * candidates;
  uint64_t last = ~uint64_t{0};
  for (int round = 0; round < count; ++round) {
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < candidates; i += kThreads) {
      const uint64_t key = own[i];
      best = key < last && key > best ? key : best;
    }
    last = block_max(best, shared);
    if (threadIdx.x == 0) {
      const int64_t column = 0xffffffffu - static_cast<uint32_t>(last);
      values[row * value_stride + round] = last == 0 ? -INFINITY : x[row * stride + column];
      columns[row * column_stride + round] = last == 0 ? -1.0f : static_cast<float>(column);
    }
  }
}

}  // namespace

void top(ConstRows x, Rows values, Rows columns) {
  if (x.rows == 0 || values.cols == 0) return;
  require<ShapeError>(x.rows <= 65535, "generation.top: at most 65535 rows, got ", x.rows);
  const int64_t parts = std::max<int64_t>(1, (x.cols + kPart - 1) / kPart);
  const int count = static_cast<int>(values.cols);
  const auto* data = static_cast<const float*>(x.data);
  const Scratch<uint64_t> found(x.rows * parts * count);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(x.rows));
  part_kernel<<<grid, kThreads, 0, stream()>>>(data, x.stride, x.cols, count, found.data());
  check_launch("generation.top");
  merge_kernel<<<static_cast<unsigned>(x.rows), kThreads, 0, stream()>>>(
      found.data(), parts, count, data, x.stride, static_cast<float*>(values.data), values.stride,
      static_cast<float*>(columns.data), columns.stride);
  check_launch("generation.top");
}

}  // namespace attend::cuda
