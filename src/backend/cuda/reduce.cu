#include "backend/cuda/reduce.cuh"

#include <cstdlib>
#include <functional>

#include "backend/cuda/cuda.h"
#include "backend/cuda/slots.cuh"
#include "backend/cuda/strided.cuh"

// Sums. A thread adds at most some 64 elements in f32, then trees and doubles continue. Pieces are cut by shape alone
// and added in a fixed order. Floor: memory bandwidth.
namespace attend::cuda {
namespace {

/// The axes of a sum, divided into kept and reduced axes, each from the largest stride of x to the smallest.
struct Axes {
  Shape shape;
  std::array<WalkOperand, 2> operands;  ///< x and y
};
Axes axes_of(const ConstView& x, const View& y, bool reduced) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if ((x.shape[axis] != y.shape[axis]) == reduced) axes.push_back(axis);
  }
  std::ranges::stable_sort(axes, std::greater<>{}, [&](int64_t axis) { return std::abs(x.strides[axis]); });
  Axes result{{}, {WalkOperand{x.data, {}, size_of(x.dtype)}, WalkOperand{y.data, {}, size_of(y.dtype)}}};
  for (int64_t axis : axes) {
    result.shape.push_back(x.shape[axis]);
    result.operands[0].strides.push_back(x.strides[axis]);
    result.operands[1].strides.push_back(y.strides[axis]);
  }
  return result;
}

constexpr int64_t kPiece = 16384;  ///< elements of a result that one CTA adds
constexpr int kLongGroup = 256;
constexpr int64_t kShortRun = 1024;  ///< a warp adds a result of up to so many elements

struct RunSizes {
  int64_t tasks, pieces, count;  ///< a task is a piece of a result; count: elements of a result
  bool packed;                   ///< the elements of a result are contiguous, and packs of them aligned
};

/// Sums where a reduced axis has unit stride: a group adds one piece of one result.
template <class T, int kGroup>
__global__ void __launch_bounds__(kCta<kGroup>)
    sum_runs_kernel(const __grid_constant__ Walk<2> kept, const __grid_constant__ Walk<1> reduced, RunSizes sizes,
                    const T* x, void* y, DType dtype, double* partial) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t task = group_row<kGroup>();
  if (task >= sizes.tasks) return;
  const int64_t output = task / sizes.pieces, first = (task - output * sizes.pieces) * kPiece;
  const int64_t end = min(first + kPiece, sizes.count);
  int64_t offset[2];
  kept.offsets(static_cast<uint32_t>(output), offset);
  const T* const from = x + offset[0];
  S sum = 0;
  if (sizes.packed) {
#pragma unroll 4
    for (int64_t at = first + group_lane<kGroup>() * kN; at < end; at += kGroup * kN) {
      const auto pack = load_pack<kN>(from + at, end - at, true, narrow<T>(0.0f));
#pragma unroll
      for (int i = 0; i < kN; ++i) sum += wide(pack.at[i]);
    }
  } else {
#pragma unroll 4
    for (int64_t at = first + group_lane<kGroup>(); at < end; at += kGroup) {
      int64_t place[1];
      reduced.offsets(static_cast<uint32_t>(at), place);
      sum += wide(from[place[0]]);
    }
  }
  sum = group_sum<kGroup>(sum);
  if (group_lane<kGroup>() != 0) return;
  if (partial != nullptr)
    partial[task] = static_cast<double>(sum);
  else
    store_any(y, dtype, offset[1], static_cast<double>(sum));
}

/// y[i] = Σ_p partial[i · pieces + p]: a warp for each result.
__global__ void __launch_bounds__(128) add_pieces_kernel(const __grid_constant__ Walk<2> kept, const double* partial,
                                                         int64_t outputs, int64_t pieces, void* y, DType dtype) {
  const int64_t output = group_row<32>();
  if (output >= outputs) return;
  double sum = 0;
#pragma unroll 4
  for (int64_t piece = group_lane<32>(); piece < pieces; piece += 32) sum += partial[output * pieces + piece];
  sum = group_sum<32>(sum);
  int64_t offset[2];
  kept.offsets(static_cast<uint32_t>(output), offset);
  if (group_lane<32>() == 0) store_any(y, dtype, offset[1], sum);
}

template <class T>
void sum_runs(const Axes& kept_axes, const Axes& reduced_axes, const View& y) {
  const Walk<2> kept = make_walk<2>(kept_axes.shape, kept_axes.operands, 1);
  const Walk<1> reduced = make_walk<1>(reduced_axes.shape, {reduced_axes.operands[0]}, 1);
  const int64_t outputs = kept_axes.shape.numel(), count = reduced_axes.shape.numel();
  bool packed = reduced.rank == 1 && (count == 1 || reduced.stride[0][0] == 1) &&
                reinterpret_cast<uintptr_t>(kept_axes.operands[0].data) % 16 == 0;
  for (int axis = 0; axis < kept.rank; ++axis) packed = packed && kept.stride[0][axis] % kPack<T> == 0;
  packed = packed || (reduced.rank == 1 && outputs == 1 && reduced.stride[0][0] == 1 &&
                      reinterpret_cast<uintptr_t>(kept_axes.operands[0].data) % 16 == 0);
  require<ShapeError>(packed || count < (int64_t{1} << 31), "sum: x has too many elements for one call");
  const int64_t pieces = ceil_div(count, kPiece);
  const RunSizes sizes{outputs * pieces, pieces, count, packed};
  const Scratch<double> partial(pieces > 1 ? outputs * pieces : 0);
  const auto launch = [&]<int kGroup>() {
    sum_runs_kernel<T, kGroup><<<group_grid<kGroup>(sizes.tasks), kCta<kGroup>, 0, stream()>>>(
        kept, reduced, sizes, static_cast<const T*>(kept_axes.operands[0].data), y.data, y.dtype, partial.data());
  };
  count <= kShortRun ? launch.template operator()<32>() : launch.template operator()<kLongGroup>();
  check_launch("sum");
  if (pieces == 1) return;
  add_pieces_kernel<<<group_grid<32>(outputs), 128, 0, stream()>>>(kept, partial.data(), outputs, pieces, y.data,
                                                                   y.dtype);
  check_launch("sum");
}

constexpr int kRowLanes = 8, kMostRowsPerLane = 16;
constexpr int64_t kRowCtas = 264;  ///< two for each multiprocessor of an H200

/// Rows that a CTA adds: 128, or fewer (at least 16) where that makes fewer than kRowCtas CTAs.
int64_t rows_per_part(int64_t rows, int64_t blocks) {
  int64_t per_lane = kMostRowsPerLane;
  while (per_lane > 2 && ceil_div(rows, per_lane * kRowLanes) * blocks < kRowCtas) per_lane /= 2;
  return per_lane * kRowLanes;
}

/// Sums where a kept axis has unit stride, as in the gradient of a bias. A CTA adds rows_per_part rows of 32 packs of
/// columns; a thread adds every kRowLanes-th row, then the lanes are added in order.
template <class T>
__global__ void __launch_bounds__(32 * kRowLanes)
    sum_rows_kernel(const __grid_constant__ Walk<2> kept, const __grid_constant__ Walk<1> reduced, int64_t rows,
                    int64_t part_rows, uint32_t parts, const T* x, void* y, DType dtype, Sum<T>* partial,
                    int64_t outputs) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  __shared__ S totals[kRowLanes][32 * kN + 1];
  const uint32_t blocks = (kept.packs + 31) / 32, part = blockIdx.x / blocks;
  const uint32_t position = (blockIdx.x - part * blocks) * 32 + threadIdx.x;
  const int64_t first = int64_t{part} * part_rows, end = min(first + part_rows, rows);
  int64_t offset[2] = {}, column = 0;
  S sums[kN] = {};
  if (position < kept.packs) {
    column = kept.offsets(position, offset);
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; row < end; row += kRowLanes) {
      int64_t place[1];
      reduced.offsets(static_cast<uint32_t>(row), place);
      const auto pack =
          load_strided<kN>(x + offset[0] + place[0], kept.inner_stride(0), kept.inner - column, kept.aligned);
#pragma unroll
      for (int i = 0; i < kN; ++i) sums[i] += wide(pack.at[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) totals[threadIdx.y][threadIdx.x * kN + i] = sums[i];
  __syncthreads();
  if (position >= kept.packs) return;
  for (int i = threadIdx.y; i < kN && column + i < kept.inner; i += kRowLanes) {
    S total = 0;
#pragma unroll
    for (int lane = 0; lane < kRowLanes; ++lane) total += totals[lane][threadIdx.x * kN + i];
    // A result's number counts columns of padded rows of packs.
    if (parts > 1)
      partial[part * outputs + int64_t{position} * kN + i] = total;
    else
      store_any(y, dtype, offset[1] + i * kept.inner_stride(1), static_cast<double>(total));
  }
}

/// y[i] = Σ_p partial[p, i]: 32 results a CTA, 32 threads each, which add every 32nd part; then a tree.
template <class S>
__global__ void __launch_bounds__(1024) add_rows_kernel(const __grid_constant__ Walk<2> kept, const S* partial,
                                                        int64_t parts, int64_t outputs, void* y, DType dtype) {
  __shared__ double sums[32][33];
  const int64_t at = int64_t{blockIdx.x} * 32 + threadIdx.x;
  double sum = 0;
  if (at < outputs) {
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < parts; part += 32) sum += partial[part * outputs + at];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_reduce(sums[threadIdx.x][threadIdx.y], Plus{});
  const int64_t own = int64_t{blockIdx.x} * 32 + threadIdx.y;
  if (threadIdx.x != 0 || own >= outputs) return;
  int64_t offset[2];
  const int64_t column = kept.offsets(static_cast<uint32_t>(own / kept.pack), offset) + own % kept.pack;
  if (column < kept.inner) store_any(y, dtype, offset[1] + own % kept.pack * kept.inner_stride(1), sum);
}

template <class T>
void sum_rows(const Axes& kept_axes, const Axes& reduced_axes, const View& y) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  Walk<2> kept = make_walk<2>(kept_axes.shape, kept_axes.operands, kN);
  const Walk<1> reduced = make_walk<1>(reduced_axes.shape, {reduced_axes.operands[0]}, 1);
  const int64_t rows = reduced_axes.shape.numel(), blocks = ceil_div(kept.packs, 32);
  const int64_t part_rows = rows_per_part(rows, blocks), parts = ceil_div(rows, part_rows);
  // Only x is moved in packs.
  const int last = kept.rank - 1;
  kept.aligned = kept.stride[0][last] == 1 && reinterpret_cast<uintptr_t>(kept_axes.operands[0].data) % 16 == 0;
  for (int axis = 0; axis < last; ++axis) kept.aligned = kept.aligned && kept.stride[0][axis] % kN == 0;
  for (int axis = 0; axis < reduced.rank; ++axis) kept.aligned = kept.aligned && reduced.stride[0][axis] % kN == 0;
  const int64_t outputs = int64_t{kept.packs} * kN;
  const Scratch<S> partial(parts > 1 ? parts * outputs : 0);
  const auto grid = static_cast<unsigned>(blocks * parts);
  sum_rows_kernel<T><<<grid, dim3(32, kRowLanes), 0, stream()>>>(
      kept, reduced, rows, part_rows, static_cast<uint32_t>(parts), static_cast<const T*>(kept_axes.operands[0].data),
      y.data, y.dtype, partial.data(), outputs);
  check_launch("sum");
  if (parts == 1) return;
  add_rows_kernel<S><<<static_cast<unsigned>(ceil_div(outputs, 32)), dim3(32, 32), 0, stream()>>>(
      kept, partial.data(), parts, outputs, y.data, y.dtype);
  check_launch("sum");
}

constexpr int kSquareThreads = 256, kSquarePacks = 8, kTotalThreads = 1024;

struct Part {
  const void* data;
  int64_t count;
};

/// Σ x² of a CTA's chunk, in double as on the CPU: squares of large f32 would overflow.
template <class T>
__global__ void __launch_bounds__(kSquareThreads)
    squares_kernel(const __grid_constant__ SlotTable<Part> table, double* partial) {
  constexpr int kN = kPack<T>;
  const auto [part, first] = place_in(table, int64_t{kSquareThreads} * kSquarePacks * kN);
  const T* const x = static_cast<const T*>(part.data);
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  double sum = 0;
#pragma unroll
  for (int k = 0; k < kSquarePacks; ++k) {
    const int64_t at = first + (int64_t{k} * kSquareThreads + threadIdx.x) * kN;
    if (at >= part.count) continue;
    const auto pack = load_pack<kN>(x + at, part.count - at, aligned, narrow<T>(0.0f));
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const double value = static_cast<double>(wide(pack.at[i]));
      sum = fma(value, value, sum);
    }
  }
  sum = group_sum<kSquareThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kTotalThreads) total_kernel(const double* partial, int64_t count, double* total) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kTotalThreads) sum += partial[i];
  sum = group_sum<kTotalThreads>(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

/// y has x's dtype, or f32 if x has 16 bits.
void sum(ConstView x, View y) {
  if (y.shape.numel() == 0) return;
  if (x.shape.numel() == 0) return fill(y, 0);
  const Axes kept = axes_of(x, y, false), reduced = axes_of(x, y, true);
  const auto inner = [](const Axes& axes) {  // the smallest stride of an axis with more than one element
    for (int64_t axis = axes.shape.rank() - 1; axis >= 0; --axis) {
      if (axes.shape[axis] > 1) return std::abs(axes.operands[0].strides[axis]);
    }
    return std::numeric_limits<int64_t>::max();
  };
  require<ShapeError>(kept.shape.numel() < (int64_t{1} << 31), "sum: y has too many elements for one call");
  const bool runs = kept.shape.numel() == 1 || inner(reduced) < inner(kept);
  with_float(x.dtype, "sum", [&](auto type) {
    using T = decltype(type);
    runs ? sum_runs<T>(kept, reduced, y) : sum_rows<T>(kept, reduced, y);
  });
}

void sum_of_squares(std::span<const ConstRows> parts, Rows total) {
  std::vector<Part> pieces;
  for (const ConstRows& x : parts) {
    const auto item = static_cast<int64_t>(size_of(x.dtype));
    for_dense(
        x.rows, x.cols,
        [&](int64_t row, int64_t count) {
          pieces.push_back({static_cast<const char*>(x.data) + row * x.stride * item, count});
        },
        x);
  }
  const DType dtype = parts.empty() ? DType::f32 : parts.front().dtype;
  with_float(dtype, "sum_of_squares", [&](auto type) {
    using T = decltype(type);
    constexpr int64_t kChunk = int64_t{kSquareThreads} * kSquarePacks * kPack<T>;
    int64_t blocks = 0;
    for (const Part& piece : pieces) blocks += ceil_div(piece.count, kChunk);
    const Scratch<double> partial(blocks);
    int64_t done = 0;
    for_tables(pieces, kChunk, [&](const auto& table, int64_t count) {
      squares_kernel<T><<<static_cast<unsigned>(count), kSquareThreads, 0, stream()>>>(table, partial.data() + done);
      check_launch("sum_of_squares");
      done += count;
    });
    total_kernel<<<1, kTotalThreads, 0, stream()>>>(partial.data(), blocks, static_cast<double*>(total.data));
    check_launch("sum_of_squares");
  });
}

}  // namespace attend::cuda
