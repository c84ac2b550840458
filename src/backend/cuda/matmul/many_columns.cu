#include <algorithm>

#include "backend/cuda/matmul/copies.cuh"
#include "backend/cuda/overlap.cuh"

// Products of some rows with very many rows of weights. One CTA per multiprocessor keeps up to 64 rows of x in shared
// memory and goes through tiles of 128 columns. The weights come in stages of 64 numbers of each row, whole lines of
// memory; kStages − 1 of them are always on their way, across tiles. Floor: reading the weights once.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kRows = 64, kWide = 128, kStage = 64, kPadding = 8, kStride = kStage + kPadding;
constexpr int kManyColumns = 1 << 14;

/// The order in which a CTA reads its weights.
struct Cursor {
  int column, k;

  __device__ void advance(int cols) {
    k += kStage;
    if (k < cols) return;
    k = 0;
    column += static_cast<int>(gridDim.x) * kWide;
  }
};

/// Adds the products of a stage for 32 rows and 32 columns.
__device__ void multiply_stage(const BFloat16* x, int x_stride, const BFloat16* weights, float (&sums)[2][4][4]) {
#pragma unroll
  for (int k = 0; k < kStage; k += 16) {
    uint32_t a[2][4], b[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_matrices(a[m], x + 16 * m * x_stride + k);
#pragma unroll
    for (int n = 0; n < 2; ++n) load_matrices(b[n], weights + 16 * n * kStride + k);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        multiply_add(sums[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
      }
    }
  }
}

/// Finishes the sums of a warp, whose first element is at (row, column), and clears them.
__device__ void put_sums(const SomeProducts& products, int row, int column, float (&sums)[2][4][4]) {
  const SomeProduct& product = products.all[0];
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int j = column + 8 * n + lane % 4 * 2 + e;
      const float bias = product.bias != nullptr && j < product.columns ? product.bias[j] : 0.0f;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        float& sum = sums[m / 2][n][m % 2 * 2 + e];
        const int i = row + lane / 4 + 8 * m;
        if (j < product.columns && i < products.rows) {
          product.finish.put(i, j, product.bias != nullptr ? sum + bias : sum);
        }
        sum = 0;
      }
    }
  }
}

template <int kStages>
__global__ void __launch_bounds__(kThreads, 1) many_columns_kernel(const __grid_constant__ SomeProducts products) {
  let_next_start();
  extern __shared__ __align__(16) unsigned char memory[];
  const SomeProduct& product = products.all[0];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, cols = products.cols;
  const int first = static_cast<int>(blockIdx.y) * kRows, x_stride = cols + kPadding;
  auto* const shared_x = reinterpret_cast<BFloat16*>(memory);
  BFloat16* const ring = shared_x + kRows * x_stride;
  const int begin = static_cast<int>(blockIdx.x) * kWide;

  Cursor next{begin, 0};
  const auto load = [&](int stage) {
    if (next.column < product.columns) {
      const int piece = thread % 8 * 8;
#pragma unroll
      for (int i = thread / 8; i < kWide; i += kThreads / 8) {
        const int64_t column = min(next.column + i, product.columns - 1);
        start_copy(ring + (stage * kWide + i) * kStride + piece,
                   product.weights + column * product.stride + next.k + piece);
      }
      next.advance(cols);
    }
    commit_copies();
  };
#pragma unroll 1
  for (int stage = 0; stage < kStages - 1; ++stage) load(stage);

  wait_for_earlier();
  {
    const int row = thread / 4;
    const bool is_row = first + row < products.rows;
    const auto* from = static_cast<const BFloat16*>(products.x) + (is_row ? first + row : 0) * products.x_stride;
    for (int k = thread % 4 * 8; k < cols; k += 32) start_copy(shared_x + row * x_stride + k, from + k, is_row);
  }
  commit_copies();
  wait_for_copies<0>();

  const int own_row = warp % 2 * 32, own_column = warp / 2 * 32;
  const BFloat16* own_x = rows_at(shared_x + own_row * x_stride, x_stride);
  float sums[2][4][4] = {};
  int stage = 0;
  for (int column = begin; column < product.columns; column += static_cast<int>(gridDim.x) * kWide) {
#pragma unroll 1
    for (int k = 0; k < cols; k += kStage) {
      wait_for_copies<kStages - 2>();
      __syncthreads();  // the stage has come, and the last one has been read by all
      load(stage == 0 ? kStages - 1 : stage - 1);
      multiply_stage(own_x + k, x_stride, weights_at(ring + (stage * kWide + own_column) * kStride, kStride), sums);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    put_sums(products, first + own_row, column + own_column, sums);
  }
}

int stages() { return architecture() == 90 ? 6 : 3; }
/// Bytes of shared memory that a CTA can have.
int64_t most_shared() { return (architecture() == 90 ? 227 : architecture() == 80 ? 163 : 99) << 10; }
int64_t shared_bytes(int64_t cols) {
  return (kRows * (cols + kPadding) + stages() * kWide * kStride) * static_cast<int64_t>(sizeof(BFloat16));
}

}  // namespace

bool can_multiply_columns(int64_t cols, std::span<const WeightProduct> products) {
  return products.size() == 1 && products[0].y.cols >= kManyColumns && cols % kStage == 0 &&
         shared_bytes(cols) <= most_shared();
}

void multiply_columns(const SomeProducts& products) {
  const auto bytes = static_cast<int>(shared_bytes(products.cols));
  const auto kernel = stages() == 6 ? many_columns_kernel<6> : many_columns_kernel<3>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "weights.multiply");
  const dim3 grid(static_cast<unsigned>(multiprocessors()), static_cast<unsigned>((products.rows + kRows - 1) / kRows));
  launch_overlapped(
      "weights.multiply", kernel,
      {.grid = grid, .threads = kThreads, .shared = static_cast<size_t>(bytes), .overlaps = products.early}, products);
}

}  // namespace attend::cuda
