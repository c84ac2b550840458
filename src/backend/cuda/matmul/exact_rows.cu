#include <cuda_bf16.h>

#include <algorithm>
#include <type_traits>

#include "backend/cuda/cuda.h"
#include "backend/cuda/matmul/few_rows.h"
#include "backend/cuda/matmul/finish.cuh"

// Exact f32 products of more rows than few_rows.cu is made for, with the same bits: a row gets them alone and among
// others. There, member t of a team takes the pieces t, t + team, … of 8 numbers. The sums of kSumGroup members are
// added in their order, the groups of a warp are added in theirs, and then the warps. Here a quarter of a CTA takes a
// quarter of the members of a tile of 32 rows and 32 columns; a thread has 4 rows and 4 columns, and goes through the
// pieces in the order of members. A stage has the pieces of 4 members with the same number: 32 numbers of each row.
namespace attend::cuda {
namespace {

constexpr int kQuarters = 4, kQuarter = 64, kThreads = kQuarters * kQuarter, kTile = 32;
constexpr int kPiece = 8, kMembers = 4, kStep = kMembers * kPiece, kStages = 2, kWarp = 32, kMostProducts = 8;

struct ExactProduct {
  const void* weights;
  int64_t stride;
  const float* bias;
  Finish finish;
  int columns, first_block;
};
struct ExactProducts {
  ExactProduct all[kMostProducts];
  int count, rows, cols;
  const float* x;
  int64_t x_stride;
};

template <class Weight>
struct Stage {
  alignas(16) float x[kTile][kStep + 4];
  alignas(16) Weight weights[kTile][kStep + 16 / sizeof(Weight)];
};

__device__ void start_copy(void* to, const void* from, bool exists) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(exists ? 16 : 0)
      : "memory");
}
__device__ float4 load_four(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ float4 load_four(const __nv_bfloat16* from) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  return make_float4(__uint_as_float(words.x << 16), __uint_as_float(words.x & 0xffff0000u),
                     __uint_as_float(words.y << 16), __uint_as_float(words.y & 0xffff0000u));
}

/// kTeam: members of a team.
template <class Weight, int kTeam>
__global__ void __launch_bounds__(kThreads) exact_rows_kernel(const __grid_constant__ ExactProducts products) {
  extern __shared__ __align__(16) unsigned char memory[];
  int which = 0;
  while (which + 1 < products.count && static_cast<int>(blockIdx.x) >= products.all[which + 1].first_block) ++which;
  const ExactProduct& product = products.all[which];
  const int quarter = static_cast<int>(threadIdx.x) / kQuarter, thread = static_cast<int>(threadIdx.x) % kQuarter;
  const int tx = thread % 8, ty = thread / 8;
  auto* const stages = reinterpret_cast<Stage<Weight>*>(memory) + quarter * kStages;
  const int column = (static_cast<int>(blockIdx.x) - product.first_block) * kTile;
  const int first = static_cast<int>(blockIdx.y) * kTile, cols = products.cols;
  constexpr int kRound = kTeam * kPiece, kOwn = kTeam / kQuarters;  // numbers between two pieces of a member; members
  const int rounds = (cols + kRound - 1) / kRound;                  // pieces of a member
  const int steps = kOwn / kMembers * rounds;

  int next = 0, next_member = quarter * kOwn, next_round = 0;
  const auto load_next = [&] {
    if (next < steps) {
      Stage<Weight>& stage = stages[next % kStages];
      const int k = next_round * kRound + next_member * kPiece;
#pragma unroll
      for (int n = 0; n < kTile * (kStep / 4) / kQuarter; ++n) {
        const int row = n * (kQuarter / 8) + thread / 8, at = thread % 8 * 4;
        const bool exists = k + at < cols;
        start_copy(
            &stage.x[row][at],
            products.x + int64_t{min(first + row, products.rows - 1)} * products.x_stride + (exists ? k + at : 0),
            exists);
      }
      constexpr int kWide = 16 / static_cast<int>(sizeof(Weight)), kLanes = kStep / kWide;
#pragma unroll
      for (int n = 0; n < kTile * kLanes / kQuarter; ++n) {
        const int row = n * (kQuarter / kLanes) + thread / kLanes, at = thread % kLanes * kWide;
        const bool exists = k + at < cols;
        start_copy(&stage.weights[row][at],
                   static_cast<const Weight*>(product.weights) +
                       int64_t{min(column + row, product.columns - 1)} * product.stride + (exists ? k + at : 0),
                   exists);
      }
      if (++next_round == rounds) next_round = 0, next_member += kMembers;
    }
    ++next;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll 1
  for (int s = 0; s + 1 < kStages; ++s) load_next();

  float sums[kMembers][4][4] = {}, group_sum[4][4], total[4][4];
  int member = quarter * kOwn, round = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    load_next();
    const Stage<Weight>& stage = stages[step % kStages];
#pragma unroll
    for (int m = 0; m < kMembers; ++m) {
      if (round * kRound + (member + m) * kPiece >= cols) continue;  // no such piece
#pragma unroll
      for (int half = 0; half < kPiece; half += 4) {
        float4 x[4], w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = load_four(&stage.x[ty + 8 * i][m * kPiece + half]);
#pragma unroll
        for (int j = 0; j < 4; ++j) w[j] = load_four(&stage.weights[tx + 8 * j][m * kPiece + half]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float& sum = sums[m][i][j];
            sum = fmaf(w[j].x, x[i].x, sum);
            sum = fmaf(w[j].y, x[i].y, sum);
            sum = fmaf(w[j].z, x[i].z, sum);
            sum = fmaf(w[j].w, x[i].w, sum);
          }
        }
      }
    }
    if (++round < rounds) continue;
#pragma unroll
    for (int m = 0; m < kMembers; ++m) {
      const int place = (member + m) % kSumGroup;
      const bool is_first = member < quarter * kOwn + kSumGroup;  // group of this quarter
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          group_sum[i][j] = place == 0 ? sums[m][i][j] : group_sum[i][j] + sums[m][i][j];
          sums[m][i][j] = 0;
          if (place == kSumGroup - 1) total[i][j] = is_first ? group_sum[i][j] : total[i][j] + group_sum[i][j];
        }
      }
    }
    round = 0;
    member += kMembers;
  }
  // The quarters' sums, in their order.
  __syncthreads();
  auto* const parts = reinterpret_cast<float(*)[kTile][kTile + 1]>(memory);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) parts[quarter][ty + 8 * i][tx + 8 * j] = total[i][j];
  }
  __syncthreads();
  const int at = static_cast<int>(threadIdx.x) % kTile, j = column + at;
  if (j >= product.columns) return;
  const float bias = product.bias != nullptr ? product.bias[j] : 0.0f;
#pragma unroll
  for (int n = 0; n < kTile * kTile / kThreads; ++n) {
    const int row = n * (kThreads / kTile) + static_cast<int>(threadIdx.x) / kTile;
    if (first + row >= products.rows) continue;
    float sum = parts[0][row][at];
#pragma unroll
    for (int q = 1; q < kQuarters; ++q) sum += parts[q][row][at];
    product.finish.put(first + row, j, product.bias != nullptr ? sum + bias : sum);
  }
}

template <class Weight, int kTeam>
void launch(ExactProducts& held, int blocks) {
  constexpr int kBytes = kQuarters * kStages * static_cast<int>(sizeof(Stage<Weight>));
  static_assert(kBytes >= kQuarters * kTile * (kTile + 1) * 4);
  const auto kernel = exact_rows_kernel<Weight, kTeam>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "weights.multiply");
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((held.rows + kTile - 1) / kTile));
  kernel<<<grid, kThreads, kBytes, stream()>>>(held);
  check_launch("weights.multiply");
}

bool is_aligned(const void* data, int64_t stride_bytes) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

}  // namespace

bool can_multiply_exact(ConstRows x, std::span<const WeightProduct> products) {
  bool fits = x.cols % 8 == 0 && x.cols > 0 && is_aligned(x.data, x.stride * 4);
  for (const WeightProduct& product : products) {
    const ConstRows& values = product.weight.values;
    fits = fits && values.dtype == products[0].weight.values.dtype && values.dtype != DType::i8 &&
           is_aligned(values.data, values.stride * static_cast<int64_t>(size_of(values.dtype)));
  }
  return fits;
}

void multiply_exact_rows(ConstRows x, std::span<const WeightProduct> products) {
  const bool is_f32 = products[0].weight.values.dtype == DType::f32, is_long = x.cols >= kLongRow;
  while (!products.empty()) {
    ExactProducts held{};
    held.rows = static_cast<int>(x.rows);
    held.cols = static_cast<int>(x.cols);
    held.x = static_cast<const float*>(x.data);
    held.x_stride = x.stride;
    int blocks = 0;
    for (; !products.empty() && held.count < kMostProducts; products = products.subspan(1)) {
      const WeightProduct& product = products[0];
      if (product.y.cols == 0) continue;
      held.all[held.count++] = {.weights = product.weight.values.data,
                                .stride = product.weight.values.stride,
                                .bias = static_cast<const float*>(product.bias.data),
                                .finish = Finish::of(product),
                                .columns = static_cast<int>(product.y.cols),
                                .first_block = blocks};
      blocks += static_cast<int>((product.y.cols + kTile - 1) / kTile);
    }
    if (blocks == 0) return;
    if (is_f32)
      is_long ? launch<float, kLongTeam>(held, blocks) : launch<float, kWarp>(held, blocks);
    else
      is_long ? launch<__nv_bfloat16, kLongTeam>(held, blocks) : launch<__nv_bfloat16, kWarp>(held, blocks);
  }
}

}  // namespace attend::cuda
