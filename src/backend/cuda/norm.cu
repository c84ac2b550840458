#include "backend/cuda/cuda.h"
#include "backend/cuda/norm_rows.cuh"

// Floor: memory bandwidth. Forward reads x and writes y; backward reads dy and x and writes dx. A warp takes a row of
// up to kElements · 32 elements, a CTA a longer one, and the row stays in registers. Rows that are longer still are
// read again, from the caches.
namespace attend::cuda {
namespace {
using namespace norms;

/// Elements of a row that a thread keeps in registers.
template <class T>
constexpr int kElements = sizeof(T) == 8 ? 16 : 32;
template <class T>
constexpr int kPacks = kElements<T> / kPack<T>;
constexpr int kLongGroup = 256;

/// The packs of a row that this thread takes, in registers if the row fits (kCached), else loaded at each use.
template <class T, int kGroup, bool kCached>
class RowPacks {
 public:
  static constexpr int kN = kPack<T>;
  __device__ RowPacks(const T* row, int64_t cols, bool aligned) : row_(row), cols_(cols), aligned_(aligned) {
    if constexpr (kCached) {
#pragma unroll
      for (int k = 0; k < kPacks<T>; ++k) {
        const int64_t col = column(k);
        if (col < cols) packs_[k] = load_pack<kN>(row + col, cols - col, aligned);
      }
    }
  }
  __device__ static int64_t column(int k) { return (static_cast<int64_t>(k) * kGroup + group_lane<kGroup>()) * kN; }

  /// Calls f(values, column, k) for each pack. Values behind the end of the row are 0.
  template <class F>
  __device__ void each(F&& f) const {
    Sum<T> values[kN];
    if constexpr (kCached) {
#pragma unroll
      for (int k = 0; k < kPacks<T>; ++k) {
        if (column(k) >= cols_) break;
        at(k, values);
        f(values, column(k), k);
      }
    } else {
      for (int k = 0; column(k) < cols_; ++k) {
        at(k, values);
        f(values, column(k), k);
      }
    }
  }
  /// The values of pack k, which must begin inside the row.
  __device__ void at(int k, Sum<T> (&values)[kN]) const {
    const auto pack = kCached ? packs_[k] : load_pack<kN>(row_ + column(k), cols_ - column(k), aligned_);
#pragma unroll
    for (int i = 0; i < kN; ++i) values[i] = wide(pack.at[i]);
  }

 private:
  const T* row_;
  int64_t cols_;
  bool aligned_;
  Pack<T> packs_[kCached ? kPacks<T> : 1];
};

// The mean first, then Σ (x − mean)², which avoids cancellation.
template <class T, int kGroup, bool kCached>
__global__ void __launch_bounds__(kCta<kGroup>) forward_kernel(NormShape shape, Parameters parameters, Sum<T> eps,
                                                               const T* x, T* y, Sum<T>* mean_out, Sum<T>* rstd_out) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t row = group_row<kGroup>(), cols = shape.cols;
  if (row >= shape.rows) return;
  const RowPacks<T, kGroup, kCached> packs(x + row * shape.x_stride, cols, shape.aligned);
  S mean = 0;
  if (shape.centred) {
    packs.each([&](const S(&values)[kN], int64_t, int) {
#pragma unroll
      for (int i = 0; i < kN; ++i) mean += values[i];
    });
    mean = group_sum<kGroup>(mean) / static_cast<S>(cols);
  }
  S squares = 0;
  packs.each([&](const S(&values)[kN], int64_t col, int) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const S difference = i < cols - col ? values[i] - mean : S{0};
      squares += difference * difference;
    }
  });
  const S variance = group_sum<kGroup>(squares) / static_cast<S>(cols), rstd = S{1} / sqrt(variance + eps);
  if (group_lane<kGroup>() == 0) {
    if (mean_out != nullptr) mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
  packs.each([&](const S(&values)[kN], int64_t col, int) {
    S weight[kN], bias[kN];
    if (parameters.weight != nullptr) load_parameter<T>(parameters.weight, parameters, col, cols, weight);
    if (parameters.bias != nullptr) load_parameter<T>(parameters.bias, parameters, col, cols, bias);
    Pack<T> result;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      S value = (values[i] - mean) * rstd;
      if (parameters.weight != nullptr) value *= weight[i];
      if (parameters.bias != nullptr) value += bias[i];
      result.at[i] = narrow<T>(value);
    }
    store_pack<kN>(y + row * shape.y_stride + col, result, cols - col, shape.aligned);
  });
}

/// Adds a thread's sums of its columns over the warps of a CTA, in order, and writes the CTA's part.
template <class T, int kGroup>
__device__ void write_part(const Sum<T> (&sums)[kElements<T>], int64_t cols, Sum<T>* part) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>, kRows = kCta<kGroup> / kGroup;
  __shared__ S total[kRows > 1 ? kGroup * kElements<T> : 1];
  for (int group = 0; group < kRows; ++group) {
    if (kRows == 1 || static_cast<int>(threadIdx.x) / kGroup == group) {
#pragma unroll
      for (int e = 0; e < kElements<T>; ++e) {
        const int at = (e / kN * kGroup + group_lane<kGroup>()) * kN + e % kN;
        const S value = kRows > 1 && group > 0 ? total[at] + sums[e] : sums[e];
        if (kRows > 1 && group + 1 < kRows)
          total[at] = value;
        else if (at < cols)
          part[at] = value;
      }
    }
    if constexpr (kRows > 1) __syncthreads();
  }
}

// With g = dy · weight: dx = rstd (g − mean(g) − x̂ mean(g x̂)); RMS norm has no mean(g). Each group takes the rows
// group, group + groups, … and keeps the sums of dy x̂ and dy of its columns in registers. Half of the 16-bit instance's
// registers are these sums.
template <class T, int kGroup, bool kCached>
__global__ void __launch_bounds__(kCta<kGroup>, kCta<kGroup> == 128 ? 3 : 1)
    backward_kernel(NormShape shape, Parameters parameters, const T* dy, const T* x, const Sum<T>* means,
                    const Sum<T>* rstds, const T* added, T* dx, GradientParts<Sum<T>> parts) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t cols = shape.cols, groups = int64_t{gridDim.x} * (kCta<kGroup> / kGroup);
  S weight_sums[kCached ? kElements<T> : 1] = {}, bias_sums[kCached ? kElements<T> : 1] = {};
  for (int64_t row = group_row<kGroup>(); row < shape.rows; row += groups) {
    const S mean = means != nullptr ? means[row] : S{0}, rstd = rstds[row];
    const RowPacks<T, kGroup, kCached> x_packs(x + row * shape.x_stride, cols, shape.aligned);
    const RowPacks<T, kGroup, kCached> dy_packs(dy + row * shape.y_stride, cols, shape.aligned);
    const auto each = [&](auto&& f) {  // f(g, x − mean, column, dy) for each pack
      x_packs.each([&](const S(&xs)[kN], int64_t col, int k) {
        S weight[kN], g[kN], centred[kN], upstream[kN];
        if (parameters.weight != nullptr) load_parameter<T>(parameters.weight, parameters, col, cols, weight);
        dy_packs.at(k, upstream);
#pragma unroll
        for (int i = 0; i < kN; ++i) {
          g[i] = parameters.weight != nullptr ? upstream[i] * weight[i] : upstream[i];
          centred[i] = xs[i] - mean;
        }
        f(g, centred, upstream, col, k);
      });
    };
    S plain = 0, moment = 0;
    each([&](const S(&g)[kN], const S(&centred)[kN], const S(&upstream)[kN], int64_t, int k) {
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        plain += g[i];
        moment += g[i] * centred[i];
        if constexpr (kCached) {
          weight_sums[k * kN + i] += upstream[i] * (centred[i] * rstd);
          bias_sums[k * kN + i] += upstream[i];
        }
      }
    });
    if (dx == nullptr) continue;
    plain = group_sum<kGroup>(plain);
    moment = group_sum<kGroup>(moment);
    const S n = static_cast<S>(cols), slope = rstd * rstd * moment / n, level = shape.centred ? plain / n : S{0};
    each([&](const S(&g)[kN], const S(&centred)[kN], const S(&)[kN], int64_t col, int) {
      Pack<T> result, before{};
      if (added != nullptr) {
        before = load_pack<kN>(added + row * shape.added_stride + col, cols - col, shape.aligned);
      }
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        S value = (g[i] - level - centred[i] * slope) * rstd;
        if (added != nullptr) value += wide(before.at[i]);
        result.at[i] = narrow<T>(value);
      }
      store_pack<kN>(dx + row * shape.dx_stride + col, result, cols - col, shape.aligned);
    });
  }
  if constexpr (kCached) {
    if (parts.weight != nullptr) write_part<T, kGroup>(weight_sums, cols, parts.weight + blockIdx.x * cols);
    if (parts.bias != nullptr) write_part<T, kGroup>(bias_sums, cols, parts.bias + blockIdx.x * cols);
  }
}

constexpr int kColumnThreads = 128, kRowsPerPart = 128;

/// The parts of rows that are too long for registers: a thread per column, kRowsPerPart rows per part.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    column_kernel(NormShape shape, const T* dy, const T* x, const Sum<T>* means, const Sum<T>* rstds,
                  GradientParts<Sum<T>> parts) {
  using S = Sum<T>;
  const int64_t col = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x, first = int64_t{blockIdx.y} * kRowsPerPart;
  if (col >= shape.cols) return;
  S weight = 0, bias = 0;
#pragma unroll 4
  for (int64_t row = first; row < min(first + kRowsPerPart, shape.rows); ++row) {
    const S upstream = wide(dy[row * shape.y_stride + col]), mean = means != nullptr ? means[row] : S{0};
    weight += upstream * ((wide(x[row * shape.x_stride + col]) - mean) * rstds[row]);
    bias += upstream;
  }
  if (parts.weight != nullptr) parts.weight[blockIdx.y * shape.cols + col] = weight;
  if (parts.bias != nullptr) parts.bias[blockIdx.y * shape.cols + col] = bias;
}

/// A parameter's gradient: result[c] = Σ_b parts[b, c].
template <class S>
struct Gradient {
  const S* parts = nullptr;
  void* result = nullptr;
  DType dtype = DType::f32;
};

/// The gradient of blockIdx.y: 32 columns a CTA, 32 threads each, which add every 32nd part; then a tree.
template <class S>
__global__ void __launch_bounds__(1024)
    add_parts_kernel(Gradient<S> first, Gradient<S> second, int64_t blocks, int64_t cols) {
  const Gradient<S> own = blockIdx.y == 0 ? first : second;
  __shared__ S sums[32][33];
  const int64_t col = int64_t{blockIdx.x} * 32 + threadIdx.x;
  S sum = 0;
  if (col < cols) {
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < blocks; block += 32) sum += own.parts[block * cols + col];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_reduce(sums[threadIdx.x][threadIdx.y], Plus{});
  const int64_t to = int64_t{blockIdx.x} * 32 + threadIdx.y;
  if (threadIdx.x == 0 && to < cols) store_any(own.result, own.dtype, to, static_cast<double>(sum));
}

/// Adds the parts of the gradients that are wanted.
template <class S>
void add_parts(const GradientParts<S>& parts, int64_t blocks, int64_t cols, const Rows& dweight, const Rows& dbias) {
  const Gradient<S> weight{parts.weight, dweight.data, dweight.dtype}, bias{parts.bias, dbias.data, dbias.dtype};
  const unsigned count = (dweight ? 1 : 0) + (dbias ? 1 : 0);
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(cols, 32)), count);
  add_parts_kernel<S><<<grid, dim3(32, 32), 0, stream()>>>(dweight ? weight : bias, bias, blocks, cols);
  check_launch("norm_backward");
}

template <class T>
Parameters parameters_of(DType dtype, const ConstRows& weight, const ConstRows& bias) {
  const ConstRows& any = weight ? weight : bias;
  const auto aligned = [](const ConstRows& row) { return !row || reinterpret_cast<uintptr_t>(row.data) % 16 == 0; };
  return {weight.data, bias.data, !any || any.dtype == dtype, aligned(weight) && aligned(bias)};
}

/// Calls f with the group and caching for rows of `cols`: f.operator()<kGroup, kCached>().
template <class T, class F>
void with_group(int64_t cols, F&& f) {
  if (cols <= kWarp * kElements<T>)
    f.template operator()<kWarp, true>();
  else if (cols <= kLongGroup * kElements<T>)
    f.template operator()<kLongGroup, true>();
  else
    f.template operator()<kLongGroup, false>();
}

void norm(bool centred, ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd) {
  if (x.rows == 0) return;
  with_float(x.dtype, "norm", [&](auto type) {
    using T = decltype(type);
    using S = Sum<T>;
    const bool aligned = rows_aligned(x, kPack<T>) && rows_aligned(y, kPack<T>);
    const NormShape shape{x.rows, x.cols, x.stride, y.stride, 0, 0, aligned, centred};
    with_group<T>(x.cols, [&]<int kGroup, bool kCached>() {
      forward_kernel<T, kGroup, kCached><<<group_grid<kGroup>(x.rows), kCta<kGroup>, 0, stream()>>>(
          shape, parameters_of<T>(x.dtype, weight, bias), static_cast<S>(eps), static_cast<const T*>(x.data),
          static_cast<T*>(y.data), static_cast<S*>(mean.data), static_cast<S*>(rstd.data));
    });
  });
  check_launch("norm");
}

/// CTAs of the backward pass: what 132 multiprocessors hold, but at least four rows for each group. Only the shape
/// decides, as the parts are added in this order.
template <class T, int kGroup>
int64_t backward_blocks(int64_t rows, int64_t cols) {
  const int64_t most = 132 * (kGroup == kWarp ? warp_ctas<T>(8 * ceil_div(cols, 8 * kWarp)) : 1);
  return std::clamp<int64_t>(ceil_div(rows, 4 * (kCta<kGroup> / kGroup)), 1, most);
}

/// Calls f.operator()<E>() with enough elements per thread for a warp's row of `cols`.
template <class T, class F>
void with_elements(int64_t cols, F&& f) {
  if (cols <= kWarp * 8) return f.template operator()<8>();
  if constexpr (kElements<T> == 16) return f.template operator()<16>();
  if constexpr (kElements<T> == 32) {
    if (cols <= kWarp * 16) return f.template operator()<16>();
    if (cols <= kWarp * 24) return f.template operator()<24>();
    return f.template operator()<32>();
  }
}

void norm_backward(bool centred, ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd,
                   ConstRows added, Rows dx, Rows dweight, Rows dbias) {
  with_float(x.dtype, "norm_backward", [&](auto type) {
    using T = decltype(type);
    using S = Sum<T>;
    const bool aligned = rows_aligned(x, kPack<T>) && rows_aligned(dy, kPack<T>) &&
                         (!dx || rows_aligned(dx, kPack<T>)) && (!added || rows_aligned(added, kPack<T>));
    const NormShape shape{x.rows, x.cols, x.stride, dy.stride, dx.stride, added.stride, aligned, centred};
    const T *dy_data = static_cast<const T*>(dy.data), *x_data = static_cast<const T*>(x.data);
    const S *means = static_cast<const S*>(mean.data), *rstds = static_cast<const S*>(rstd.data);
    with_group<T>(x.cols, [&]<int kGroup, bool kCached>() {
      const int64_t blocks = backward_blocks<T, kGroup>(x.rows, x.cols);
      const int64_t parts = x.rows == 0 ? 0 : kCached ? blocks : ceil_div(x.rows, kRowsPerPart);
      const Scratch<S> weight_parts(dweight ? parts * x.cols : 0), bias_parts(dbias ? parts * x.cols : 0);
      const GradientParts<S> to{weight_parts.data(), bias_parts.data()};
      if (x.rows > 0 && (kCached || dx)) {
        const Parameters parameters = parameters_of<T>(x.dtype, weight, {});
        const auto launch = [&](auto* kernel) {
          kernel<<<static_cast<unsigned>(blocks), kCta<kGroup>, 0, stream()>>>(
              shape, parameters, dy_data, x_data, means, rstds, static_cast<const T*>(added.data),
              static_cast<T*>(dx.data), to);
        };
        if (kGroup == kWarp && aligned && x.cols % kPack<T> == 0)
          with_elements<T>(x.cols, [&]<int E>() { launch(whole_backward_kernel<T, E>); });
        else
          launch(backward_kernel<T, kGroup, kCached>);
        check_launch("norm_backward");
      }
      if constexpr (!kCached) {
        if (x.rows > 0 && (dweight || dbias)) {
          const dim3 grid(static_cast<unsigned>(ceil_div(x.cols, kColumnThreads)), static_cast<unsigned>(parts));
          column_kernel<T><<<grid, kColumnThreads, 0, stream()>>>(shape, dy_data, x_data, means, rstds, to);
          check_launch("norm_backward");
        }
      }
      add_parts(to, parts, x.cols, dweight, dbias);
    });
  });
}

}  // namespace

void layer_norm(ConstRows x, ConstRows weight, ConstRows bias, double eps, Rows y, Rows mean, Rows rstd) {
  norm(true, x, weight, bias, eps, y, mean, rstd);
}
void layer_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows mean, ConstRows rstd, ConstRows added,
                         Rows dx, Rows dweight, Rows dbias) {
  norm_backward(true, dy, x, weight, mean, rstd, added, dx, dweight, dbias);
}
void rms_norm(ConstRows x, ConstRows weight, double eps, Rows y, Rows rstd) {
  norm(false, x, weight, {}, eps, y, {}, rstd);
}
void rms_norm_backward(ConstRows dy, ConstRows x, ConstRows weight, ConstRows rstd, ConstRows added, Rows dx,
                       Rows dweight) {
  norm_backward(false, dy, x, weight, {}, rstd, added, dx, dweight, {});
}

}  // namespace attend::cuda
