#include <algorithm>

#include "backend/cuda/matmul/copies.cuh"
#include "backend/cuda/overlap.cuh"

// Products of some rows on Hopper. A cluster of kSplit CTAs computes a tile of 64 rows and kWide columns of y. Each CTA
// sums over its own slice of a row, so that it reads little of x and of the weights, all of it at once. The CTAs then
// read each other's sums through distributed shared memory and add them in the order of the slices. A norm of x needs
// one more exchange: the statistics of the slices. Floor: the latency of one read of x after the previous kernel.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kRows = 64, kLanes = kThreads / kRows, kPadding = 8;
constexpr int kHeld = 16;  // float4 of a thread: 64 rows of kFloatSlice
constexpr int kFloatSlice = kHeld * kLanes * 4, kMostSlice = 512, kMostUnsplit = 1024;
constexpr int kSplit = 8;

int slice_of(int64_t cols) { return static_cast<int>((cols + 32 * kSplit - 1) / (32 * kSplit) * 32); }

struct SplitCall {
  SomeProducts products;
  SplitNorm norm;
  int slice;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// The address of the same place in the shared memory of another CTA of the cluster.
__device__ uint32_t address_in(uint32_t at, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}
__device__ float load_from(uint32_t at) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
  return value;
}
__device__ float2 load_pair_from(uint32_t at) {
  float2 pair;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(at) : "memory");
  return pair;
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__device__ float lanes_sum(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

/// The part of a row that a CTA sums over.
struct Slice {
  int begin, count, size;  // numbers that exist, and with zeros
};

/// Rounds this thread's quarter of a row's slice, normed if wanted, to shared memory. `row` is null if there is none.
__device__ void round_slice(const float* row, const SplitNorm& norm, int cols, const Slice& slice,
                            const float* norm_weights, float2* statistics, BFloat16* to) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float4 held[kHeld];
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    const int k = 4 * (lane + n * kLanes);
    held[n] = make_float4(0, 0, 0, 0);
    if (row != nullptr && k < slice.count) held[n] = *reinterpret_cast<const float4*>(row + slice.begin + k);
  }
  float mean = 0, rstd = 1;
  if (norm.norms) {
    float sum = 0, squares = 0;
#pragma unroll
    for (int n = 0; n < kHeld; ++n) sum += (held[n].x + held[n].y) + (held[n].z + held[n].w);
    sum = lanes_sum(sum);
    const float own_mean = norm.centred && slice.count > 0 ? sum / static_cast<float>(slice.count) : 0.0f;
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      if (4 * (lane + n * kLanes) >= slice.count) continue;
      const float4 d =
          make_float4(held[n].x - own_mean, held[n].y - own_mean, held[n].z - own_mean, held[n].w - own_mean);
      squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
    }
    squares = lanes_sum(squares);
    if (lane == 0) *statistics = make_float2(sum, squares);
    wait_for_copies<1>();  // the norm's weights
    cluster_arrive();
    cluster_wait();
    float2 parts[kSplit];
    float total = 0, all = 0;
#pragma unroll
    for (int r = 0; r < kSplit; ++r) parts[r] = load_pair_from(address_in(shared_address(statistics), r));
#pragma unroll
    for (int r = 0; r < kSplit; ++r) total += parts[r].x;
    if (norm.centred) mean = total / static_cast<float>(cols);
      // Σ (x − mean)² of a slice is Σ (x − own mean)² + count · (own mean − mean)².
#pragma unroll
    for (int r = 0; r < kSplit; ++r) {
      const auto count = static_cast<float>(min(max(cols - r * slice.size, 0), slice.size));
      const float distance = norm.centred && count > 0 ? parts[r].x / count - mean : 0.0f;
      all += parts[r].y + count * distance * distance;
    }
    rstd = 1.0f / sqrtf(all / static_cast<float>(cols) + norm.eps);
  }
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    const int k = 4 * (lane + n * kLanes);
    if (k >= slice.size) continue;
    float4 value = held[n];
    if (norm.norms && k < slice.count) {
      value = make_float4((value.x - mean) * rstd, (value.y - mean) * rstd, (value.z - mean) * rstd,
                          (value.w - mean) * rstd);
      if (norm.weight != nullptr) {
        const float4 w = *reinterpret_cast<const float4*>(norm_weights + k);
        value = make_float4(value.x * w.x, value.y * w.y, value.z * w.z, value.w * w.w);
      }
      if (norm.bias != nullptr) {
        const float4 b = *reinterpret_cast<const float4*>(norm_weights + slice.size + k);
        value = make_float4(value.x + b.x, value.y + b.y, value.z + b.z, value.w + b.w);
      }
    }
    *reinterpret_cast<uint2*>(to + k) = make_uint2(rounded_pair(value.x, value.y), rounded_pair(value.z, value.w));
  }
}

/// The sums of a warp: 16 rows and kWide / 2 columns.
template <int kWide>
__device__ void multiply_slice(const BFloat16* x, const BFloat16* weights, int stride, int size,
                               float (&sums)[kWide / 16][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const BFloat16* own_x = rows_at(x + warp % 4 * 16 * stride, stride);
  const BFloat16* own_weights = weights_at(weights + warp / 4 * (kWide / 2) * stride, stride);
#pragma unroll 4
  for (int k = 0; k < size; k += 16) {
    uint32_t a[4], b[kWide / 32][4];
    load_matrices(a, own_x + k);
#pragma unroll
    for (int n = 0; n < kWide / 32; ++n) load_matrices(b[n], own_weights + 16 * n * stride + k);
#pragma unroll
    for (int n = 0; n < kWide / 16; ++n) {
      multiply_add(sums[n], a[0], a[1], a[2], a[3], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

#endif

template <class X, int kWide>
__global__ void __launch_bounds__(kThreads, 2) split_rows_kernel(const __grid_constant__ SplitCall call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  let_next_start();
  constexpr bool kRounds = sizeof(X) == 4;
  constexpr int kOwn = kRows / kSplit, kRowStep = kThreads / kWide, kPuts = kOwn / kRowStep, kLine = kWide + kPadding;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ float2 statistics[kRows];
  const SomeProducts& products = call.products;
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(blockIdx.x) % kSplit;
  const int tile = static_cast<int>(blockIdx.x) / kSplit, first = static_cast<int>(blockIdx.y) * kRows;
  int which = 0;
  while (which + 1 < products.count && tile >= products.all[which + 1].first_block) ++which;
  const SomeProduct& product = products.all[which];
  const int column = (tile - product.first_block) * kWide;
  const Slice slice{rank * call.slice, min(max(products.cols - rank * call.slice, 0), call.slice), call.slice};
  const int stride = slice.size + kPadding;
  auto* const shared_x = reinterpret_cast<BFloat16*>(memory);
  BFloat16* const shared_weights = shared_x + kRows * stride;
  auto* const norm_weights = reinterpret_cast<float*>(shared_weights + kWide * stride);

  if (kRounds && 4 * thread < slice.size) {
    const int k = 4 * thread, at = min(slice.begin + k, products.cols - 4);
    if (call.norm.weight != nullptr) start_copy(norm_weights + k, call.norm.weight + at, k < slice.count);
    if (call.norm.bias != nullptr) start_copy(norm_weights + slice.size + k, call.norm.bias + at, k < slice.count);
  }
  commit_copies();
  {
    constexpr int kTeam = kThreads / kWide;
    const int own = thread / kTeam;
    const BFloat16* from = product.weights + int64_t{min(column + own, product.columns - 1)} * product.stride;
    for (int k = thread % kTeam * 8; k < slice.size; k += kTeam * 8) {
      const bool exists = k < slice.count;
      start_copy(shared_weights + own * stride + k, from + (exists ? slice.begin + k : 0), exists);
    }
  }
  commit_copies();
  const int put_column = column + thread % kWide, put_row = rank * kOwn + thread / kWide;
  const int j = min(put_column, product.columns - 1);
  const float bias = product.bias != nullptr ? product.bias[j] : 0.0f;

  wait_for_earlier();
  Finish::Ahead ahead[kPuts];
  const int row = thread / kLanes;
  const bool is_row = first + row < products.rows;
  if constexpr (kRounds) {
    const float* from = static_cast<const float*>(products.x) + (first + row) * products.x_stride;
    round_slice(is_row ? from : nullptr, call.norm, products.cols, slice, norm_weights, &statistics[row],
                shared_x + row * stride);
  } else {
    const auto* from = static_cast<const BFloat16*>(products.x) + (is_row ? first + row : 0) * products.x_stride;
    for (int k = thread % kLanes * 8; k < slice.size; k += kLanes * 8) {
      const bool exists = is_row && k < slice.count;
      start_copy(shared_x + row * stride + k, from + (exists ? slice.begin + k : 0), exists);
    }
    commit_copies();
  }
#pragma unroll
  for (int n = 0; n < kPuts; ++n) {
    ahead[n] = product.finish.ahead(min(first + put_row + n * kRowStep, products.rows - 1), j);
  }
  wait_for_copies<0>();
  __syncthreads();

  float sums[kWide / 16][4] = {};
  multiply_slice<kWide>(shared_x, shared_weights, stride, slice.size, sums);
  __syncthreads();  // the sums take the place of x and the weights
  auto* const parts = reinterpret_cast<float*>(memory);
  {
    const int lane = thread % 32, warp = thread / 32;
    float* to = parts + (warp % 4 * 16 + lane / 4) * kLine + warp / 4 * (kWide / 2) + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kWide / 16; ++n) {
      *reinterpret_cast<float2*>(to + 8 * n) = make_float2(sums[n][0], sums[n][1]);
      *reinterpret_cast<float2*>(to + 8 * kLine + 8 * n) = make_float2(sums[n][2], sums[n][3]);
    }
  }
  cluster_arrive();
  cluster_wait();
  float all[kPuts][kSplit];
#pragma unroll
  for (int r = 0; r < kSplit; ++r) {
    const uint32_t from = address_in(shared_address(parts + put_row * kLine + thread % kWide), r);
#pragma unroll
    for (int n = 0; n < kPuts; ++n) all[n][r] = load_from(from + n * kRowStep * kLine * 4);
  }
  cluster_arrive();  // this CTA has read the others' sums
#pragma unroll
  for (int n = 0; n < kPuts; ++n) {
    const int y_row = first + put_row + n * kRowStep;
    if (put_column >= product.columns || y_row >= products.rows) continue;
    float sum = all[n][0];
#pragma unroll
    for (int r = 1; r < kSplit; ++r) sum += all[n][r];
    if (product.bias != nullptr) sum += bias;
    product.finish.put(y_row, put_column, sum, ahead[n]);
  }
  cluster_wait();
#endif
}

int row_tiles(const SomeProducts& products) { return (products.rows + kRows - 1) / kRows; }
int column_tiles(const SomeProducts& products, int wide) {
  int tiles = 0;
  for (int i = 0; i < products.count; ++i) tiles += (products.all[i].columns + wide - 1) / wide;
  return tiles;
}

template <class X, int kWide>
void launch(SplitCall call) {
  SomeProducts& products = call.products;
  int tiles = 0;
  for (int i = 0; i < products.count; ++i) {
    products.all[i].first_block = tiles;
    tiles += (products.all[i].columns + kWide - 1) / kWide;
  }
  const int operands = (kRows + kWide) * (call.slice + kPadding) * 2, sums = kRows * (kWide + kPadding) * 4;
  const int bytes = std::max(operands + (sizeof(X) == 4 ? 2 * call.slice * 4 : 0), sums);
  const auto kernel = split_rows_kernel<X, kWide>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "weights.multiply");
  const dim3 grid(static_cast<unsigned>(tiles * kSplit), static_cast<unsigned>(row_tiles(products)));
  launch_overlapped("weights.multiply", kernel,
                    {.grid = grid,
                     .threads = kThreads,
                     .shared = static_cast<size_t>(bytes),
                     .overlaps = products.early,
                     .cluster = kSplit},
                    call);
}

/// Wide tiles read x less often, if there are enough of them. Both give the same bits.
template <class X>
void launch_split(const SplitCall& call) {
  const bool wide = call.slice < kMostSlice &&
                    3 * kSplit * column_tiles(call.products, 64) * row_tiles(call.products) >= 2 * multiprocessors();
  wide ? launch<X, 64>(call) : launch<X, 32>(call);
}

}  // namespace

// On an H200, 64 rows of 3,072 take 8.7 µs instead of 12.5, but rows of 768 take 12.6 instead of 10.1: their CTAs load
// x more often than they save.
bool can_split_rows(int64_t cols) {
  if (architecture() != 90 || cols <= kMostUnsplit || slice_of(cols) > kMostSlice) return false;
  static const bool is_compiled = has_overlap(split_rows_kernel<BFloat16, 32>);
  return is_compiled;
}

bool can_split_floats(int64_t cols, const RowNorm* norm) {
  const auto is_aligned = [](const ConstRows& rows) { return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0; };
  return slice_of(cols) <= kFloatSlice && (norm == nullptr || (is_aligned(norm->weight) && is_aligned(norm->bias)));
}

void multiply_split(const SomeProducts& products, bool reads_floats, const SplitNorm& norm) {
  const SplitCall call{.products = products, .norm = norm, .slice = slice_of(products.cols)};
  reads_floats ? launch_split<float>(call) : launch_split<BFloat16>(call);
}

}  // namespace attend::cuda
