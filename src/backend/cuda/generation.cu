#include <algorithm>

#include "backend/cuda/cuda.h"
#include "backend/cuda/types.cuh"

// The cache of generation: rows of keys and values are appended and moved. Floor: memory bandwidth; a step's rows are
// so few that the launch counts.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256;

/// One row per block in x, several blocks for a long row.
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    put_rows_kernel(const From* x, int64_t x_stride, const int64_t* places, int64_t place_cols, int64_t place_stride,
                    To* y, int64_t y_stride, int64_t cols) {
  const int64_t i = blockIdx.x, place = places[i / place_cols * place_stride + i % place_cols];
  for (int64_t c = int64_t{blockIdx.y} * kThreads + threadIdx.x; c < cols; c += int64_t{gridDim.y} * kThreads) {
    y[place * y_stride + c] = narrow<To>(wide(x[i * x_stride + c]));
  }
}

/// Block x takes a part of run blockIdx.y. T is 16 bytes wide where all rows allow it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    copy_runs_kernel(const T* x, int64_t x_stride, const int64_t* copies, int64_t copies_stride, T* y, int64_t y_stride,
                     int64_t cols) {
  const int64_t* run = copies + blockIdx.y * copies_stride;
  const int64_t from = run[0], to = run[1], all = run[2] * cols;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / cols, c = i % cols;
    y[(to + row) * y_stride + c] = x[(from + row) * x_stride + c];
  }
}

template <class T>
void launch_runs(const ConstRows& x, const ConstRows& copies, int64_t longest, const Rows& y, int64_t per_element) {
  const int64_t cols = x.cols / per_element;
  const auto parts = static_cast<unsigned>(std::clamp<int64_t>(longest * cols / (4 * kThreads), 1, 256));
  for (int64_t first = 0; first < copies.rows; first += 65535) {
    const dim3 grid(parts, static_cast<unsigned>(std::min<int64_t>(copies.rows - first, 65535)));
    copy_runs_kernel<<<grid, kThreads, 0, stream()>>>(static_cast<const T*>(x.data), x.stride / per_element,
                                                      static_cast<const int64_t*>(copies.data) + first * copies.stride,
                                                      copies.stride, static_cast<T*>(y.data), y.stride / per_element,
                                                      cols);
    check_launch("generation.copy_runs");
  }
}

}  // namespace

void put_rows(ConstRows x, ConstRows places, Rows y) {
  if (x.numel() == 0) return;
  const dim3 grid(static_cast<unsigned>(x.rows),
                  static_cast<unsigned>(std::clamp<int64_t>((x.cols + kThreads - 1) / kThreads, 1, 64)));
  with_float(x.dtype, "generation.put_rows", [&](auto from) {
    using From = decltype(from);
    const auto put = [&](auto to) {
      using To = decltype(to);
      put_rows_kernel<<<grid, kThreads, 0, stream()>>>(static_cast<const From*>(x.data), x.stride,
                                                       static_cast<const int64_t*>(places.data), places.cols,
                                                       places.stride, static_cast<To*>(y.data), y.stride, x.cols);
    };
    if (y.dtype == x.dtype) return put(From{});
    require<ShapeError>(y.dtype == DType::bf16, "generation.put_rows: ", x.dtype, " cannot be stored as ", y.dtype);
    put(BFloat16{});
  });
  check_launch("generation.put_rows");
}

void copy_runs(ConstRows x, ConstRows copies, int64_t longest, Rows y) {
  if (copies.rows == 0 || x.cols == 0) return;
  const auto size = static_cast<int64_t>(size_of(x.dtype)), wide = 16 / size;
  const auto address = reinterpret_cast<uintptr_t>(x.data) | reinterpret_cast<uintptr_t>(y.data);
  if (address % 16 == 0 && x.cols % wide == 0 && x.stride % wide == 0 && y.stride % wide == 0) {
    return launch_runs<uint4>(x, copies, longest, y, wide);
  }
  with_bits(x.dtype, [&](auto bits) { launch_runs<decltype(bits)>(x, copies, longest, y, 1); });
}

}  // namespace attend::cuda
