#include "backend/cuda/matmul/some_rows.h"

#include <algorithm>

#include "backend/cuda/matmul/finish.cuh"
#include "backend/cuda/runtime.h"

// A CTA computes 16 columns of y for up to 8 · kTiles rows of x. Its warps share the sum over k: warp w takes the
// blocks w, w + 8, … of 32 numbers, and the warps' sums are added in their order. Weights are the operand a of
// mma.m16n8k16 and x the operand b. Both come straight from memory: a thread reads 16 bytes of a row, 8 consecutive
// numbers, and uses them where the instruction expects the numbers 2t, 2t + 1, 2t + 8 and 2t + 9 of two steps. As a and
// b are permuted alike, the sums are the same.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kColumns = 16, kBlock = 32, kMostProducts = 8;

struct SomeProduct {
  const BFloat16* weights;
  int64_t stride;
  const float* bias;
  Finish finish;
  int columns, first_block;
};
struct SomeProducts {
  SomeProduct all[kMostProducts];
  int count, rows, cols;
  const BFloat16* x;  // [rows, x_stride], padded with zeros to a multiple of kBlock numbers
  int64_t x_stride;
};

__device__ void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <int kTiles>
__global__ void __launch_bounds__(kThreads) some_rows_kernel(const __grid_constant__ SomeProducts products) {
  constexpr int kRows = 8 * kTiles;
  __shared__ float parts[kWarps][kColumns][kRows + 1];
  int which = 0;
  while (which + 1 < products.count && static_cast<int>(blockIdx.x) >= products.all[which + 1].first_block) ++which;
  const SomeProduct& product = products.all[which];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, group = thread % 32 / 4, place = thread % 4;
  const int column = (static_cast<int>(blockIdx.x) - product.first_block) * kColumns;
  const int first = static_cast<int>(blockIdx.y) * kRows;

  const BFloat16 *upper = product.weights + min(column + group, product.columns - 1) * product.stride + 8 * place,
                 *lower = product.weights + min(column + group + 8, product.columns - 1) * product.stride + 8 * place;
  const BFloat16* x = products.x + 8 * place;
  int64_t x_rows[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) x_rows[n] = min(first + 8 * n + group, products.rows - 1) * products.x_stride;

  float sums[kTiles][4] = {};
  const uint4 nothing = make_uint4(0, 0, 0, 0);
#pragma unroll 2
  for (int k = warp * kBlock; k < products.cols; k += kWarps * kBlock) {
    const bool exists = k + 8 * place < products.cols;
    const uint4 a = exists ? __ldg(reinterpret_cast<const uint4*>(upper + k)) : nothing;
    const uint4 b = exists ? __ldg(reinterpret_cast<const uint4*>(lower + k)) : nothing;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const uint4 values = *reinterpret_cast<const uint4*>(x + x_rows[n] + k);
      multiply_add(sums[n], a.x, b.x, a.y, b.y, values.x, values.y);
      multiply_add(sums[n], a.z, b.z, a.w, b.w, values.z, values.w);
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) parts[warp][group + e / 2 * 8][8 * n + 2 * place + e % 2] = sums[n][e];
  }
  __syncthreads();
  for (int i = thread; i < kColumns * kRows; i += kThreads) {
    const int j = i % kColumns, row = i / kColumns;
    if (column + j >= product.columns || first + row >= products.rows) continue;
    float sum = parts[0][j][row];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += parts[w][j][row];
    if (product.bias != nullptr) sum += product.bias[column + j];
    product.finish.put(first + row, column + j, sum);
  }
}

struct RoundedRows {
  const float *x, *weight, *bias;  // weight and bias may be null
  int64_t stride;
  int cols, padded;
  float eps;
  bool norms, centred;
  BFloat16* y;
};

/// Rounds a row, normed if wanted, and pads it with zeros. A CTA takes a row.
__global__ void __launch_bounds__(kThreads) round_kernel(RoundedRows rows) {
  const float* from = rows.x + blockIdx.x * rows.stride;
  BFloat16* to = rows.y + int64_t{blockIdx.x} * rows.padded;
  float mean = 0, rstd = 1;
  if (rows.norms) {
    float sum = 0;
    if (rows.centred) {
      for (int p = static_cast<int>(threadIdx.x); p < rows.cols; p += kThreads) sum += from[p];
      mean = group_sum<kThreads>(sum) / static_cast<float>(rows.cols);
    }
    sum = 0;
    for (int p = static_cast<int>(threadIdx.x); p < rows.cols; p += kThreads) {
      sum = fmaf(from[p] - mean, from[p] - mean, sum);
    }
    rstd = 1.0f / sqrtf(group_sum<kThreads>(sum) / static_cast<float>(rows.cols) + rows.eps);
  }
  for (int p = static_cast<int>(threadIdx.x); p < rows.padded; p += kThreads) {
    float value = p < rows.cols ? from[p] : 0.0f;
    if (rows.norms && p < rows.cols) {
      value = (value - mean) * rstd;
      if (rows.weight != nullptr) value *= rows.weight[p];
      if (rows.bias != nullptr) value += rows.bias[p];
    }
    to[p] = narrow<BFloat16>(value);
  }
}

template <int kTiles>
void launch(const SomeProducts& products, int blocks) {
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>((products.rows + 8 * kTiles - 1) / (8 * kTiles)));
  some_rows_kernel<kTiles><<<grid, kThreads, 0, stream()>>>(products);
  check_launch("weights.multiply");
}

/// More rows of x share the weights, as long as there are enough CTAs.
void launch_tiles(const SomeProducts& products, int blocks) {
  const auto is_enough = [&](int rows) {
    return products.rows > rows / 2 && blocks * ((products.rows + rows - 1) / rows) >= multiprocessors();
  };
  if (is_enough(64)) return launch<8>(products, blocks);
  if (is_enough(32)) return launch<4>(products, blocks);
  launch<2>(products, blocks);
}

}  // namespace

bool can_multiply_some(ConstRows x, std::span<const WeightProduct> products) {
  if (x.rows > kSomeRows || x.cols % 8 != 0 || x.cols == 0) return false;
  return std::ranges::all_of(products, [](const WeightProduct& product) {
    const ConstRows& values = product.weight.values;
    return values.dtype == DType::bf16 && reinterpret_cast<uintptr_t>(values.data) % 16 == 0 && values.stride % 8 == 0;
  });
}

void multiply_some(ConstRows x, std::span<const WeightProduct> products, const RowNorm* norm) {
  const int64_t padded = (x.cols + kBlock - 1) / kBlock * kBlock;
  const Scratch<BFloat16> rounded(x.rows * padded);
  RoundedRows rows{.x = static_cast<const float*>(x.data),
                   .stride = x.stride,
                   .cols = static_cast<int>(x.cols),
                   .padded = static_cast<int>(padded),
                   .y = rounded.data()};
  if (norm != nullptr) {
    rows.weight = static_cast<const float*>(norm->weight.data);
    rows.bias = static_cast<const float*>(norm->bias.data);
    rows.eps = static_cast<float>(norm->eps);
    rows.norms = true;
    rows.centred = !norm->rms;
  }
  round_kernel<<<static_cast<unsigned>(x.rows), kThreads, 0, stream()>>>(rows);
  check_launch("weights.multiply");
  SomeProducts held{};
  held.rows = static_cast<int>(x.rows);
  held.cols = static_cast<int>(x.cols);
  held.x = rounded.data();
  held.x_stride = padded;
  while (!products.empty()) {
    int blocks = 0;
    held.count = 0;
    for (; !products.empty() && held.count < kMostProducts; products = products.subspan(1)) {
      const WeightProduct& product = products[0];
      if (product.y.cols == 0) continue;
      held.all[held.count++] = {.weights = static_cast<const BFloat16*>(product.weight.values.data),
                                .stride = product.weight.values.stride,
                                .bias = static_cast<const float*>(product.bias.data),
                                .finish = Finish::of(product),
                                .columns = static_cast<int>(product.y.cols),
                                .first_block = blocks};
      blocks += static_cast<int>((product.y.cols + kColumns - 1) / kColumns);
    }
    if (blocks > 0) launch_tiles(held, blocks);
  }
}

}  // namespace attend::cuda
