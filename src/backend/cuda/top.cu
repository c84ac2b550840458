#include <algorithm>

#include "backend/cuda/cuda.h"
#include "backend/cuda/overlap.cuh"
#include "backend/cuda/reduce.cuh"

// The largest values of each row, and the terms of its log-softmax. A value and its column form one 64-bit key; keys
// are unique, so their order is total. A block finds the best keys of a part of a row in rounds: each round is the
// maximum of the keys below the last one. A second kernel does the same with the best keys of all parts. Floor: reading
// x once; a round takes less than a microsecond.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kWarp = 32, kPacks = 4, kN = 4, kHeld = kPacks * kN, kPart = kThreads * kHeld;
using Powers = RowPowers<float>;

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

struct BestCall {
  const float* x;
  int64_t stride, cols, words;
  bool aligned;
  int count, parts;
  uint64_t* found;  // [rows, parts, count]
  Powers* powers;   // [rows, parts]; null: the terms are there already
  float* y;
  int64_t y_stride;
};

/// The best keys and the powers of one part of a row. The powers are added in the order of softmax.log_terms.
__global__ void __launch_bounds__(kThreads) part_kernel(const __grid_constant__ BestCall call) {
  let_next_start();
  __shared__ uint64_t shared[kThreads / kWarp];
  const int64_t first = int64_t{blockIdx.x} * kPart, at = int64_t{blockIdx.y} * call.parts + blockIdx.x;
  const float* row = call.x + blockIdx.y * call.stride;
  Pack<float, kN> packs[kPacks];
  const auto column_of = [&](int n) { return first + (int64_t{n} * kThreads + threadIdx.x) * kN; };
#pragma unroll
  for (int n = 0; n < kPacks; ++n) {
    const int64_t column = column_of(n);
    if (column < call.cols) {
      packs[n] = load_pack<kN>(row + column, call.cols - column, call.aligned, kMinusInfinity<float>);
    }
  }
  uint64_t keys[kHeld];
  Powers powers;
#pragma unroll
  for (int n = 0; n < kPacks; ++n) {
    const int64_t column = column_of(n);
    if (column < call.cols) powers.template add<float>(packs[n].at);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      keys[n * kN + i] = column + i < call.words ? key_of(packs[n].at[i], column + i) : 0;
    }
  }
  if (call.powers != nullptr) {
    powers.template combine<float, kThreads>();
    if (threadIdx.x == 0) call.powers[at] = powers;
  }
  uint64_t last = ~uint64_t{0};
  for (int round = 0; round < call.count; ++round) {
    uint64_t best = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) best = keys[i] < last && keys[i] > best ? keys[i] : best;
    last = block_max(best, shared);
    if (threadIdx.x == 0) call.found[at * call.count + round] = last;
  }
}

/// Merges the parts of a row.
__global__ void __launch_bounds__(kThreads) merge_kernel(const __grid_constant__ BestCall call) {
  let_next_start();
  wait_for_earlier();
  __shared__ uint64_t shared[kThreads / kWarp];
  const int64_t row = blockIdx.x, candidates = int64_t{call.parts} * call.count;
  const uint64_t* own = call.found + row * candidates;
  float* y = call.y + row * call.y_stride;
  if (call.powers != nullptr && threadIdx.x < kWarp) {
    Powers powers;
    for (int n = static_cast<int>(threadIdx.x); n < call.parts; n += kWarp) {
      powers.template join<float>(call.powers[row * call.parts + n]);
    }
    powers.template combine<float, kWarp>();
    if (threadIdx.x == 0) y[0] = powers.shift(), y[1] = powers.sum == 0 ? 0.0f : log(powers.sum);
  }
  uint64_t last = ~uint64_t{0};
  for (int round = 0; round < call.count; ++round) {
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < candidates; i += kThreads) {
      const uint64_t key = own[i];
      best = key < last && key > best ? key : best;
    }
    last = block_max(best, shared);
    if (threadIdx.x == 0) {
      const int64_t column = 0xffffffffu - static_cast<uint32_t>(last);
      y[2 + round] = last == 0 ? -INFINITY : call.x[row * call.stride + column];
      y[2 + call.count + round] = last == 0 ? -1.0f : static_cast<float>(column);
    }
  }
}

}  // namespace

void best(ConstRows x, int64_t words, Rows y) {
  if (x.rows == 0) return;
  require<ShapeError>(x.rows <= 65535, "generation.best: at most 65535 rows, got ", x.rows);
  constexpr int64_t kPartsRow = 8192;  // up to this length softmax.log_terms does not work in parts
  const int64_t parts = std::max<int64_t>(1, (x.cols + kPart - 1) / kPart), count = (y.cols - 2) / 2;
  const bool has_powers = x.cols > kPartsRow;
  if (!has_powers) log_softmax_terms(x, {y.data, DType::f32, y.rows, 2, y.stride});
  const Scratch<uint64_t> found(x.rows * parts * count);
  const Scratch<Powers> powers(has_powers ? x.rows * parts : 0);
  const BestCall call{.x = static_cast<const float*>(x.data),
                      .stride = x.stride,
                      .cols = x.cols,
                      .words = words,
                      .aligned = rows_aligned(x, kN),
                      .count = static_cast<int>(count),
                      .parts = static_cast<int>(parts),
                      .found = found.data(),
                      .powers = powers.data(),
                      .y = static_cast<float*>(y.data),
                      .y_stride = y.stride};
  const auto rows = static_cast<unsigned>(x.rows);
  part_kernel<<<dim3(static_cast<unsigned>(parts), rows), kThreads, 0, stream()>>>(call);
  check_launch("generation.best");
  launch_overlapped("generation.best", merge_kernel, {.grid = dim3(rows), .threads = kThreads}, call);
}

}  // namespace attend::cuda
