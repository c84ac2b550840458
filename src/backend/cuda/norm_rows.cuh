#pragma once

#include <algorithm>
#include <bit>

#include "backend/cuda/reduce.cuh"

// What the kernels of norm.cu share, and its backward kernel for rows of whole, aligned packs.
namespace attend::cuda::norms {

constexpr int kWarp = 32;

/// weight, bias: x's dtype or f32; absent ones are null.
struct Parameters {
  const void* weight = nullptr;
  const void* bias = nullptr;
  bool same_type = true;  ///< the dtype is x's, otherwise f32
  bool aligned = true;
};

template <class T, int N>
__device__ void load_parameter(const void* data, const Parameters& parameters, int64_t col, int64_t cols,
                               Sum<T> (&values)[N]) {
  if (parameters.same_type) {
    const auto pack = load_pack<N>(static_cast<const T*>(data) + col, cols - col, parameters.aligned);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = wide(pack.at[i]);
  } else {
    const auto pack = load_pack<N>(static_cast<const float*>(data) + col, cols - col, parameters.aligned);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = pack.at[i];
  }
}

struct NormShape {
  int64_t rows, cols, x_stride, y_stride, dx_stride, added_stride;
  bool aligned;
  bool centred;  ///< layer norm; otherwise RMS norm, whose mean is 0
};

/// Partial sums of the parameters' gradients, [blocks, cols] each; null: not needed.
template <class S>
struct GradientParts {
  S* weight = nullptr;
  S* bias = nullptr;
};

/// CTAs of four warps on a multiprocessor. A thread has `elements` columns in registers: their weights, two sums, and
/// two rows of x and dy.
template <class T>
constexpr int warp_ctas(int64_t elements) {
  constexpr int64_t kBytes = 3 * sizeof(Sum<T>) + 4 * sizeof(T);
  return static_cast<int>(std::max<int64_t>(2, 512 / (40 + elements * kBytes / 4)));
}

/// A warp's row of whole, aligned packs, E elements for each thread.
template <class T, int E>
struct WholeRow {
  static constexpr int kCount = E / kPack<T>;
  uint4 x[kCount], dy[kCount];  // packs
  Sum<T> mean = 0, rstd = 0;

  __device__ static int column(int k) { return (k * kWarp + group_lane<kWarp>()) * kPack<T>; }
  __device__ void load(const NormShape& shape, int64_t row, const T* x_data, const T* dy_data, const Sum<T>* means,
                       const Sum<T>* rstds) {
    if (row >= shape.rows) return;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (column(k) >= shape.cols) break;
      x[k] = *reinterpret_cast<const uint4*>(x_data + row * shape.x_stride + column(k));
      dy[k] = *reinterpret_cast<const uint4*>(dy_data + row * shape.y_stride + column(k));
    }
    mean = means != nullptr ? means[row] : Sum<T>{0};
    rstd = rstds[row];
  }
  /// Makes the compiler convert 16-bit packs again at their next use, rather than keep the values in registers.
  __device__ void forget_values() {
    if constexpr (kIs16Bit<T>) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        asm volatile("" : "+r"(x[k].x), "+r"(x[k].y), "+r"(x[k].z), "+r"(x[k].w));
        asm volatile("" : "+r"(dy[k].x), "+r"(dy[k].y), "+r"(dy[k].z), "+r"(dy[k].w));
      }
    }
  }
};

/// The part of a CTA of warps: Σ_warp sums, in order.
template <class T, int E>
__device__ void write_warps_part(const Sum<T> (&sums)[E], int64_t cols, Sum<T>* part) {
  constexpr int kN = kPack<T>, kThreads = kCta<kWarp>, kWarps = kThreads / kWarp;
  __shared__ Sum<T> all[kWarps][kWarp * E];
  __syncthreads();
#pragma unroll
  for (int e = 0; e < E; ++e) all[threadIdx.x / kWarp][WholeRow<T, E>::column(e / kN) + e % kN] = sums[e];
  __syncthreads();
  for (int col = static_cast<int>(threadIdx.x); col < cols; col += kThreads) {
    Sum<T> sum = all[0][col];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) sum += all[warp][col];
    part[col] = sum;
  }
}

/// A product that is not fused with a sum: the kernel for other rows rounds it too.
__device__ __forceinline__ float multiply_alone(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double multiply_alone(double a, double b) { return __dmul_rn(a, b); }

// The backward kernel for a warp's row of whole, aligned packs, with the same sums in the same order. The next row is
// loaded before the current one is reduced; weight and sums stay in registers.
template <class T, int E>
__global__ void __launch_bounds__(kCta<kWarp>, warp_ctas<T>(E))
    whole_backward_kernel(NormShape shape, Parameters parameters, const T* dy, const T* x, const Sum<T>* means,
                          const Sum<T>* rstds, const T* added, T* dx, GradientParts<Sum<T>> parts) {
  using S = Sum<T>;
  using Row = WholeRow<T, E>;
  constexpr int kN = kPack<T>;
  const int cols = static_cast<int>(shape.cols);
  const int64_t groups = int64_t{gridDim.x} * (kCta<kWarp> / kWarp);
  S weights[Row::kCount][kN], weight_sums[E] = {}, bias_sums[E] = {};
#pragma unroll
  for (int k = 0; k < Row::kCount; ++k) {
#pragma unroll
    for (int i = 0; i < kN; ++i) weights[k][i] = 1;
    if (parameters.weight != nullptr && Row::column(k) < cols)
      load_parameter<T>(parameters.weight, parameters, Row::column(k), cols, weights[k]);
  }
  Row own, next;
  int64_t row = group_row<kWarp>();
  own.load(shape, row, x, dy, means, rstds);
  for (; row < shape.rows; row += groups, own = next) {
    next.load(shape, row + groups, x, dy, means, rstds);
    uint4 before[kIs16Bit<T> ? Row::kCount : 1];  // a row of `added`; wider types have no registers for it
    const auto load_before = [&](int k) {
      return *reinterpret_cast<const uint4*>(added + row * shape.added_stride + Row::column(k));
    };
    if constexpr (kIs16Bit<T>) {
#pragma unroll
      for (int k = 0; k < Row::kCount; ++k) {
        if (added != nullptr && Row::column(k) < cols) before[k] = load_before(k);
      }
    }
    S plain = 0, moment = 0;
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) {
      if (Row::column(k) >= cols) break;
      const auto xs = std::bit_cast<Pack<T>>(own.x[k]), dys = std::bit_cast<Pack<T>>(own.dy[k]);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const S upstream = wide(dys.at[i]), g = multiply_alone(upstream, weights[k][i]);
        const S centred = wide(xs.at[i]) - own.mean;
        plain += g;
        moment += g * centred;
        weight_sums[k * kN + i] += upstream * (centred * own.rstd);
        bias_sums[k * kN + i] += upstream;
      }
    }
    if (dx == nullptr) continue;
    plain = group_sum<kWarp>(plain);
    moment = group_sum<kWarp>(moment);
    own.forget_values();
    const S n = static_cast<S>(cols), rstd = own.rstd, slope = rstd * rstd * moment / n;
    const S level = shape.centred ? plain / n : S{0};
#pragma unroll
    for (int k = 0; k < Row::kCount; ++k) {
      if (Row::column(k) >= cols) break;
      const auto xs = std::bit_cast<Pack<T>>(own.x[k]), dys = std::bit_cast<Pack<T>>(own.dy[k]);
      Pack<T> result, held{};
      if (added != nullptr) held = std::bit_cast<Pack<T>>(kIs16Bit<T> ? before[kIs16Bit<T> ? k : 0] : load_before(k));
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const S g = multiply_alone(wide(dys.at[i]), weights[k][i]), centred = wide(xs.at[i]) - own.mean;
        S value = (g - level - centred * slope) * rstd;
        if (added != nullptr) value += wide(held.at[i]);
        result.at[i] = narrow<T>(value);
      }
      *reinterpret_cast<Pack<T>*>(dx + row * shape.dx_stride + Row::column(k)) = result;
    }
  }
  if (parts.weight != nullptr) write_warps_part<T>(weight_sums, cols, parts.weight + blockIdx.x * cols);
  if (parts.bias != nullptr) write_warps_part<T>(bias_sums, cols, parts.bias + blockIdx.x * cols);
}

}  // namespace attend::cuda::norms
