#include "backend/cuda/matmul/some_rows.h"

#include <algorithm>

#include "backend/cuda/matmul/some_rows.cuh"
#include "backend/cuda/overlap.cuh"

// A CTA computes 16 · kWide columns of y for up to 8 · kTiles rows of x. Its warps share the sum over k: warp w takes
// the blocks w, w + 8, … of 32 numbers, and the warps' sums are added in their order. Weights are the operand a of
// mma.m16n8k16 and x the operand b. Both come straight from memory: a thread reads 16 bytes of a row, 8 consecutive
// numbers, and uses them where the instruction expects the numbers 2t, 2t + 1, 2t + 8 and 2t + 9 of two steps. As a and
// b are permuted alike, the sums are the same.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kColumns = 16, kBlock = 32;
constexpr int64_t kRoundedInPlace = 1024;

/// Eight numbers of x as bf16. An earlier kernel may still have been writing them at the start.
__device__ uint4 load_eight(const BFloat16* from) { return *reinterpret_cast<const uint4*>(from); }
__device__ uint4 load_eight(const float* from) {
  const float4 low = *reinterpret_cast<const float4*>(from), high = *(reinterpret_cast<const float4*>(from) + 1);
  return make_uint4(rounded_pair(low.x, low.y), rounded_pair(low.z, low.w), rounded_pair(high.x, high.y),
                    rounded_pair(high.z, high.w));
}

/// The warp's sums for kTiles tiles of 8 rows and kWide tiles of 16 columns from `column` on. Calls start() once,
/// before it reads x and while the first weights are on their way.
template <class X, int kTiles, int kWide, class Start>
__device__ void add_blocks(const SomeProducts& products, const SomeProduct& product, const X* all_x, int64_t x_stride,
                           int first, int column, float (&sums)[kWide][kTiles][4], Start start) {
  constexpr int kAhead = kWide > 1 ? 1 : kTiles > 2 ? 3 : 6, kStep = kWarps * kBlock;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, group = thread % 32 / 4, place = thread % 4;
  const BFloat16* weights[kWide][2];
#pragma unroll
  for (int w = 0; w < kWide; ++w) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(column + w * kColumns + half * 8 + group, product.columns - 1);
      weights[w][half] = product.weights + row * product.stride + 8 * place;
    }
  }
  const X* x[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    x[n] = all_x + min(first + 8 * n + group, products.rows - 1) * x_stride + 8 * place;
  }
  const uint4 nothing = make_uint4(0, 0, 0, 0);
  uint4 held[kAhead][kWide][2];  // weights come from far away
  const auto hold = [&](int begin) {
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      const int k = begin + s * kStep;
      const bool exists = k + 8 * place < products.cols;
#pragma unroll
      for (int w = 0; w < kWide; ++w) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          held[s][w][half] = exists ? __ldg(reinterpret_cast<const uint4*>(weights[w][half] + k)) : nothing;
        }
      }
    }
  };
  hold(warp * kBlock);
  for (int k = warp * kBlock + kAhead * kStep; place == 0 && k < products.cols; k += kStep) {
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      prefetch_line(weights[w][0] + k);
      prefetch_line(weights[w][1] + k);
    }
  }
  start();
#pragma unroll 1
  for (int begin = warp * kBlock; begin < products.cols; begin += kAhead * kStep) {
    if (begin != warp * kBlock) hold(begin);
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      const int k = begin + s * kStep;
      if (k >= products.cols) break;
      const bool exists = k + 8 * place < products.cols;
      uint4 values[kTiles];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) values[n] = exists ? load_eight(x[n] + k) : nothing;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          const uint4 &a = held[s][w][0], &b = held[s][w][1];
          multiply_add(sums[w][n], a.x, b.x, a.y, b.y, values[n].x, values[n].y);
          multiply_add(sums[w][n], a.z, b.z, a.w, b.w, values[n].z, values[n].w);
        }
      }
    }
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

/// Rounds a row, normed if wanted, and pads it with zeros. All threads of the CTA call it; the row's first numbers stay
/// in registers. Calls start() before it reads x. Every operation is rounded on its own, so that all kernels give the
/// same bits.
template <class Start>
__device__ __forceinline__ void round_row(const RoundedRows& rows, int row, BFloat16* to, Start start) {
  constexpr int kHeld = 4;
  const int thread = static_cast<int>(threadIdx.x);
  const float* from = rows.x + row * rows.stride;
  float held[kHeld], weights[kHeld], biases[kHeld];
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    const int p = thread + n * kThreads;
    const bool exists = p < rows.cols;
    weights[n] = exists && rows.weight != nullptr ? rows.weight[p] : 1.0f;
    biases[n] = exists && rows.bias != nullptr ? rows.bias[p] : 0.0f;
  }
  start();
#pragma unroll
  for (int n = 0; n < kHeld; ++n) held[n] = thread + n * kThreads < rows.cols ? from[thread + n * kThreads] : 0.0f;
  const auto sum_over = [&](auto add) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      if (thread + n * kThreads < rows.cols) sum = add(sum, held[n]);
    }
    for (int p = thread + kHeld * kThreads; p < rows.cols; p += kThreads) sum = add(sum, from[p]);
    return group_sum<kThreads>(sum);
  };
  float mean = 0, rstd = 1;
  if (rows.norms) {
    const auto cols = static_cast<float>(rows.cols);
    if (rows.centred) mean = sum_over([](float sum, float value) { return sum + value; }) / cols;
    const float squares = sum_over([&](float sum, float value) { return fmaf(value - mean, value - mean, sum); });
    rstd = 1.0f / sqrtf(squares / cols + rows.eps);
  }
  const auto put = [&](int p, float value, float weight, float bias) {
    if (rows.norms && p < rows.cols) {
      value = __fmul_rn(value - mean, rstd);
      if (rows.weight != nullptr) value = __fmul_rn(value, weight);
      if (rows.bias != nullptr) value = __fadd_rn(value, bias);
    }
    to[p] = narrow<BFloat16>(value);
  };
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    if (thread + n * kThreads < rows.padded) put(thread + n * kThreads, held[n], weights[n], biases[n]);
  }
  for (int p = thread + kHeld * kThreads; p < rows.padded; p += kThreads) {
    const bool exists = p < rows.cols;
    put(p, exists ? from[p] : 0.0f, exists && rows.weight != nullptr ? rows.weight[p] : 1.0f,
        exists && rows.bias != nullptr ? rows.bias[p] : 0.0f);
  }
}

/// A CTA's part of the products of x. Calls start() before it reads x.
template <class X, int kTiles, int kWide, class Start>
__device__ __forceinline__ void multiply_tile(const SomeProducts& products, const X* x, int64_t x_stride, Start start) {
  constexpr int kRows = 8 * kTiles, kPuts = kColumns * kRows / kThreads, kRowStep = kThreads / kColumns;
  __shared__ float parts[kWarps][kColumns][kRows + 1];
  int which = 0;
  while (which + 1 < products.count && static_cast<int>(blockIdx.x) >= products.all[which + 1].first_block) ++which;
  const SomeProduct& product = products.all[which];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, group = thread % 32 / 4, place = thread % 4;
  const int column = (static_cast<int>(blockIdx.x) - product.first_block) * kColumns * kWide;
  const int first = static_cast<int>(blockIdx.y) * kRows;

  // Each thread finishes kPuts elements of a column. What that takes is on its way with x, if registers allow.
  const int put_column = thread % kColumns, put_row = first + thread / kColumns;
  float bias;
  Finish::Ahead ahead[kPuts];
  const auto look_ahead = [&](int w) {
    const int j = min(column + w * kColumns + put_column, product.columns - 1);
    bias = product.bias != nullptr ? product.bias[j] : 0.0f;
#pragma unroll
    for (int n = 0; n < kPuts; ++n) {
      ahead[n] = product.finish.ahead(min(put_row + n * kRowStep, products.rows - 1), j);
    }
  };
  float sums[kWide][kTiles][4] = {};
  add_blocks<X, kTiles, kWide>(products, product, x, x_stride, first, column, sums, [&] {
    start();
    if constexpr (kWide == 1) look_ahead(0);
  });
#pragma unroll
  for (int w = 0; w < kWide; ++w) {
    if constexpr (kWide > 1) look_ahead(w);
    if (w > 0) __syncthreads();  // the last tile's sums have been read
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) parts[warp][group + e / 2 * 8][8 * n + 2 * place + e % 2] = sums[w][n][e];
    }
    __syncthreads();
    const int j = column + w * kColumns + put_column;
#pragma unroll
    for (int n = 0; n < kPuts; ++n) {
      const int row = put_row + n * kRowStep;
      if (j >= product.columns || row >= products.rows) continue;
      float sum = parts[0][put_column][row - first];
#pragma unroll
      for (int other = 1; other < kWarps; ++other) sum += parts[other][put_column][row - first];
      if (product.bias != nullptr) sum += bias;
      product.finish.put(row, j, sum, ahead[n]);
    }
  }
}

template <class X, int kTiles, int kWide>
__global__ void __launch_bounds__(kThreads, 2) some_rows_kernel(const __grid_constant__ SomeProducts products) {
  let_next_start();
  multiply_tile<X, kTiles, kWide>(products, static_cast<const X*>(products.x), products.x_stride,
                                  [] { wait_for_earlier(); });
}

/// Up to kRoundedHere rows of at most kRoundedInPlace numbers are normed and rounded by every CTA, which is faster than
/// another kernel.
constexpr int kRoundedHere = 4;
__global__ void __launch_bounds__(kThreads, 2)
    rounded_rows_kernel(const __grid_constant__ SomeProducts products, const __grid_constant__ RoundedRows rounded) {
  let_next_start();
  __shared__ __align__(16) BFloat16 x[kRoundedHere * kRoundedInPlace];
  multiply_tile<BFloat16, 2, 1>(products, x, rounded.padded, [&] {
    for (int row = 0; row < products.rows; ++row)
      round_row(rounded, row, x + row * rounded.padded, [] { wait_for_earlier(); });
    __syncthreads();
  });
}

/// A CTA takes a row.
__global__ void __launch_bounds__(kThreads) round_kernel(RoundedRows rows) {
  let_next_start();
  round_row(rows, static_cast<int>(blockIdx.x), rows.y + int64_t{blockIdx.x} * rows.padded, [] { wait_for_earlier(); });
}

/// Sets where the blocks of each product begin, for tiles of kWide · kColumns columns. Returns their number.
int place_blocks(SomeProducts& products, int wide) {
  int blocks = 0;
  for (int i = 0; i < products.count; ++i) {
    products.all[i].first_block = blocks;
    blocks += (products.all[i].columns + wide * kColumns - 1) / (wide * kColumns);
  }
  return blocks;
}

template <class X, int kTiles, int kWide>
void launch(SomeProducts products) {
  const auto blocks = static_cast<unsigned>(place_blocks(products, kWide));
  const dim3 grid(blocks, static_cast<unsigned>((products.rows + 8 * kTiles - 1) / (8 * kTiles)));
  launch_overlapped("weights.multiply", some_rows_kernel<X, kTiles, kWide>,
                    {.grid = grid, .threads = kThreads, .overlaps = products.early}, products);
}

void launch_rounded(SomeProducts products, const RoundedRows& rounded) {
  const dim3 grid(static_cast<unsigned>(place_blocks(products, 1)));
  launch_overlapped("weights.multiply", rounded_rows_kernel,
                    {.grid = grid, .threads = kThreads, .overlaps = products.early}, products, rounded);
}

/// More rows of x share the weights, and more weights share x, as long as there are enough CTAs. All give the same
/// bits.
template <class X>
void launch_tiles(const SomeProducts& products) {
  int blocks = 0;
  for (int i = 0; i < products.count; ++i) blocks += (products.all[i].columns + kColumns - 1) / kColumns;
  const auto is_enough = [&](int rows, int times) {
    return products.rows > rows / 2 && blocks * ((products.rows + rows - 1) / rows) >= times * multiprocessors();
  };
  if (is_enough(64, 8)) return launch<X, 8, 2>(products);
  if (is_enough(64, 1)) return launch<X, 8, 1>(products);
  if (is_enough(32, 1)) return launch<X, 4, 1>(products);
  launch<X, 2, 1>(products);
}

RoundedRows rounded_rows(const ConstRows& x, const RowNorm* norm, int64_t padded, BFloat16* y) {
  RoundedRows rows{.x = static_cast<const float*>(x.data),
                   .weight = nullptr,
                   .bias = nullptr,
                   .stride = x.stride,
                   .cols = static_cast<int>(x.cols),
                   .padded = static_cast<int>(padded),
                   .eps = 0,
                   .norms = norm != nullptr,
                   .centred = norm != nullptr && !norm->rms,
                   .y = y};
  if (norm != nullptr) {
    rows.weight = static_cast<const float*>(norm->weight.data);
    rows.bias = static_cast<const float*>(norm->bias.data);
    rows.eps = static_cast<float>(norm->eps);
  }
  return rows;
}

void round_rows(const ConstRows& x, const RowNorm* norm, int64_t padded, BFloat16* y, bool early) {
  launch_overlapped("weights.multiply", round_kernel,
                    {.grid = dim3(static_cast<unsigned>(x.rows)), .threads = kThreads, .overlaps = early},
                    rounded_rows(x, norm, padded, y));
}

SplitNorm split_norm_of(const RowNorm& norm) {
  return {.weight = static_cast<const float*>(norm.weight.data),
          .bias = static_cast<const float*>(norm.bias.data),
          .eps = static_cast<float>(norm.eps),
          .norms = true,
          .centred = !norm.rms};
}

}  // namespace

bool can_multiply_some(ConstRows x, std::span<const WeightProduct> products) {
  if (x.cols % 8 != 0 || x.cols == 0) return false;
  return std::ranges::all_of(products, [](const WeightProduct& product) {
    const ConstRows& values = product.weight.values;
    return values.dtype == DType::bf16 && reinterpret_cast<uintptr_t>(values.data) % 16 == 0 && values.stride % 8 == 0;
  });
}

void multiply_some(ConstRows x, std::span<const WeightProduct> products, const RowNorm* norm, bool early) {
  const bool is_rounded = x.dtype == DType::bf16, has_columns = can_multiply_columns(x.cols, products),
             splits = !has_columns && can_split_rows(x.cols);
  // Short rows are rounded by every CTA that reads them, which is faster than another kernel.
  const bool reads_floats = !is_rounded && !has_columns && x.stride % 4 == 0 &&
                            reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
                            (splits ? can_split_floats(x.cols, norm) : norm == nullptr && x.cols <= kRoundedInPlace);
  const int64_t padded = (x.cols + kBlock - 1) / kBlock * kBlock;
  const bool rounds_here =
      !is_rounded && !reads_floats && !has_columns && !splits && x.rows <= kRoundedHere && padded <= kRoundedInPlace;
  const bool in_place = is_rounded || reads_floats || rounds_here;
  const Scratch<BFloat16> rounded(in_place ? 0 : x.rows * padded);
  if (!in_place) round_rows(x, norm, padded, rounded.data(), early);
  SomeProducts held{};
  held.early = early;
  held.rows = static_cast<int>(x.rows);
  held.cols = static_cast<int>(x.cols);
  held.x = in_place ? x.data : rounded.data();
  held.x_stride = in_place ? x.stride : padded;
  const SplitNorm split_norm = reads_floats && norm != nullptr ? split_norm_of(*norm) : SplitNorm{};
  while (!products.empty()) {
    held.count = 0;
    for (; !products.empty() && held.count < kMostProducts; products = products.subspan(1)) {
      const WeightProduct& product = products[0];
      if (product.y.cols == 0) continue;
      held.all[held.count++] = {.weights = static_cast<const BFloat16*>(product.weight.values.data),
                                .stride = product.weight.values.stride,
                                .bias = static_cast<const float*>(product.bias.data),
                                .finish = Finish::of(product),
                                .columns = static_cast<int>(product.y.cols),
                                .first_block = 0};
    }
    if (held.count == 0) return;
    if (has_columns) {
      multiply_columns(held);
    } else if (splits) {
      multiply_split(held, reads_floats, split_norm);
    } else if (rounds_here) {
      launch_rounded(held, rounded_rows(x, norm, padded, nullptr));
    } else {
      reads_floats ? launch_tiles<float>(held) : launch_tiles<BFloat16>(held);
    }
  }
}

}  // namespace attend::cuda
