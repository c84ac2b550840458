#include <algorithm>

#include "backend/cuda/matmul/some_rows.cuh"
#include "backend/cuda/overlap.cuh"

// Products of some rows with very many rows of weights. One CTA per multiprocessor keeps up to 64 rows of x in shared
// memory. Each warp goes through tiles of 16 columns; the weights of the next kAhead blocks of 32 numbers are always on
// their way, across tiles, so that memory never waits. Operands are permuted as in some_rows.cu. Floor: reading the
// weights once.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kColumns = 16, kBlock = 32, kTiles = 8, kRows = 8 * kTiles;
constexpr int kAhead = 8;  // blocks
constexpr int kManyColumns = 1 << 14;
constexpr int kLeastShared = 99 << 10, kHopperShared = 227 << 10;  // bytes that any device, and Hopper, can have

/// The place of numbers k … k + 7 of a row in shared memory. Odd rows have the halves of each 128 bytes swapped, so
/// that the rows that are read together lie in different banks.
__device__ int place_of(int row, int k, int cols) { return row * cols + (k ^ (row % 2 * 32)); }

/// The order in which a warp reads its weights.
struct Cursor {
  int column, k;

  __device__ void advance(int cols, int step) {
    k += kBlock;
    if (k < cols) return;
    k = 0;
    column += step;
  }
};

__global__ void __launch_bounds__(kThreads, 1) many_columns_kernel(const __grid_constant__ SomeProducts products) {
  let_next_start();
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const shared = reinterpret_cast<BFloat16*>(memory);
  const SomeProduct& product = products.all[0];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, group = thread % 32 / 4, place = thread % 4;
  const int cols = products.cols, first = static_cast<int>(blockIdx.y) * kRows;
  const int step = static_cast<int>(gridDim.x) * kWarps * kColumns;
  const int begin = (warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * kColumns;

  uint4 held[kAhead][2];
  Cursor next{begin, 0};
  const auto hold = [&](uint4(&block)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = min(next.column + half * 8 + group, product.columns - 1);
      block[half] = __ldg(
          reinterpret_cast<const uint4*>(product.weights + int64_t{column} * product.stride + next.k + 8 * place));
    }
    next.advance(cols, step);
  };
#pragma unroll
  for (int s = 0; s < kAhead; ++s) hold(held[s]);

  wait_for_earlier();
  const auto* x = static_cast<const BFloat16*>(products.x);
  for (int i = 8 * thread; i < kRows * cols; i += 8 * kThreads) {
    const int row = i / cols, k = i % cols;
    const BFloat16* from = x + int64_t{min(first + row, products.rows - 1)} * products.x_stride + k;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared + place_of(row, k, cols)))),
                 "l"(from));
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  for (int column = begin; column < product.columns; column += step) {
    float sums[kTiles][4] = {};
#pragma unroll 1
    for (int k = 0; k < cols; k += kAhead * kBlock) {
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        const uint4 a = held[s][0], b = held[s][1];
        hold(held[s]);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const uint4 value =
              *reinterpret_cast<const uint4*>(shared + place_of(8 * n + group, k + s * kBlock + 8 * place, cols));
          multiply_add(sums[n], a.x, b.x, a.y, b.y, value.x, value.y);
          multiply_add(sums[n], a.z, b.z, a.w, b.w, value.z, value.w);
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int j = column + group + e / 2 * 8;
      if (j >= product.columns) continue;
      const float bias = product.bias != nullptr ? product.bias[j] : 0.0f;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int row = first + 8 * n + 2 * place + e % 2;
        if (row >= products.rows) continue;
        product.finish.put(row, j, product.bias != nullptr ? sums[n][e] + bias : sums[n][e]);
      }
    }
  }
}

int64_t shared_bytes(int64_t cols) { return kRows * cols * static_cast<int64_t>(sizeof(BFloat16)); }

}  // namespace

bool can_multiply_columns(int64_t cols, std::span<const WeightProduct> products) {
  return products.size() == 1 && products[0].y.cols >= kManyColumns && cols % (kAhead * kBlock) == 0 &&
         shared_bytes(cols) <= (architecture() == 90 ? kHopperShared : kLeastShared);
}

void multiply_columns(const SomeProducts& products) {
  const auto bytes = static_cast<int>(shared_bytes(products.cols));
  check(cudaFuncSetAttribute(many_columns_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "weights.multiply");
  const dim3 grid(static_cast<unsigned>(multiprocessors()), static_cast<unsigned>((products.rows + kRows - 1) / kRows));
  launch_overlapped(
      "weights.multiply", many_columns_kernel,
      {.grid = grid, .threads = kThreads, .shared = static_cast<size_t>(bytes), .overlaps = products.early}, products);
}

}  // namespace attend::cuda
