#include <algorithm>
#include <bit>

#include "backend/cuda/cuda.h"
#include "backend/cuda/reduce.cuh"

// Floor: memory bandwidth. The forward pass reads the logits once; the backward pass reads them and writes the gradient
// once, and so do both together. 16-bit logits leave time for about 14 instructions per element.
namespace attend::cuda {
namespace {

constexpr int kScalarThreads = 1024;
constexpr int kLongGroup = 512;
constexpr int64_t kWarpCols = 1024;  ///< a warp takes a row of up to so many classes

__global__ void __launch_bounds__(kScalarThreads)
    count_kernel(const int64_t* target, int64_t rows, int64_t ignored, int64_t* count) {
  int64_t own = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += kScalarThreads) own += target[row] != ignored;
  own = group_sum<kScalarThreads>(own);
  if (threadIdx.x == 0) *count = own;
}

__global__ void __launch_bounds__(kScalarThreads)
    mean_kernel(const double* losses, int64_t rows, const int64_t* count, void* loss, DType dtype) {
  double sum = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += kScalarThreads) sum += losses[row];
  sum = group_sum<kScalarThreads>(sum);
  if (threadIdx.x == 0) store_any(loss, dtype, 0, *count == 0 ? 0.0 : sum / static_cast<double>(*count));
}

/// The sums of a group's row, from which its loss follows.
template <class S>
struct RowSums {
  RowPowers<S> powers;
  S plain = 0;  ///< Σ x, for smoothed targets

  /// Adds a pack of logits, of which `valid` exist; the others are −∞.
  template <class T>
  __device__ void add(const Pack<T>& pack, int64_t valid, bool smoothed) {
    constexpr int kN = kPack<T>;
    S values[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) values[i] = wide(pack.at[i]);
    powers.template add<T>(values);
    if (smoothed) {
#pragma unroll
      for (int i = 0; i < kN; ++i) plain += i < valid ? values[i] : S{0};
    }
  }
};

/// The loss of a row and its log-sum-exp.
struct RowLoss {
  double loss, lse;
};
// With smoothed targets t = (1 − ε) onehot + ε / C: −Σ t (x − lse) = lse − (1 − ε) x_target − ε mean(x).
template <class S>
__device__ RowLoss row_loss(const RowPowers<S>& powers, double total, double own, double smoothing, int64_t cols) {
  const double lse = static_cast<double>(powers.max) + log(static_cast<double>(powers.sum));
  const double loss = lse - (1 - smoothing) * own;
  return {smoothing > 0 ? loss - smoothing * total / static_cast<double>(cols) : loss, lse};
}

template <class T, int kGroup>
__global__ void __launch_bounds__(kCta<kGroup>)
    forward_kernel(const T* x, int64_t stride, int64_t rows, int64_t cols, bool aligned, const int64_t* target,
                   CrossEntropyOptions options, double* losses, Sum<T>* lse) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t row = group_row<kGroup>();
  if (row >= rows) return;
  const int64_t chosen = target[row];
  const bool writes = group_lane<kGroup>() == 0;
  if (chosen == options.ignore_index) {
    if (writes) losses[row] = 0, lse[row] = 0;
    return;
  }
  const T* const logits = x + row * stride;
  const bool smoothed = options.label_smoothing > 0;
  RowSums<S> sums;
#pragma unroll 4
  for (int64_t col = group_lane<kGroup>() * kN; col < cols; col += kGroup * kN) {
    sums.template add<T>(load_pack<kN>(logits + col, cols - col, aligned, narrow<T>(kMinusInfinity<float>)), cols - col,
                         smoothed);
  }
  sums.powers.template combine<T, kGroup>();
  const double total = smoothed ? group_sum<kGroup>(static_cast<double>(sums.plain)) : 0.0;
  if (!writes) return;
  const double own = static_cast<double>(wide(logits[chosen]));
  const RowLoss result = row_loss(sums.powers, total, own, options.label_smoothing, cols);
  losses[row] = result.loss;
  lse[row] = static_cast<S>(result.lse);
}

constexpr int kBackwardThreads = 256, kBackwardPacks = 4;

/// The scalars that the gradient reads.
struct BackwardInputs {
  const void* dloss;  ///< null: 1
  DType dloss_dtype;
  const int64_t* target;
  const int64_t* count;
  CrossEntropyOptions options;
};

/// A row's gradient is factor · softmax + offset, and `own` less at the target.
template <class S>
struct BackwardTerms {
  S factor, offset, own, shift;
};
template <class S>
__device__ BackwardTerms<S> backward_terms(const BackwardInputs& in, int64_t cols, S lse) {
  const double dloss = in.dloss != nullptr ? load_any(in.dloss, in.dloss_dtype, 0) : 1.0;
  const auto factor = static_cast<S>(dloss / static_cast<double>(*in.count));
  const double smoothing = in.options.label_smoothing;
  return {factor, smoothing > 0 ? -factor * static_cast<S>(smoothing / static_cast<double>(cols)) : S{0},
          factor * static_cast<S>(1 - smoothing), lse};
}

template <class T>
__device__ Pack<T> gradient_of(const Pack<T>& x, const BackwardTerms<Sum<T>>& terms, int64_t chosen) {
  const int own = chosen >= 0 && chosen < kPack<T> ? static_cast<int>(chosen) : -1;
  Pack<T> result;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) {
    Sum<T> value = fma(terms.factor, exponential<T>(wide(x.at[i]) - terms.shift), terms.offset);
    if (own == i) value -= terms.own;
    result.at[i] = narrow<T>(value);
  }
  return result;
}

// A CTA takes kBackwardPacks packs a thread of one row; neighbouring CTAs take neighbouring pieces. The packs of a
// thread are loaded before the first is stored, without branches (which would make each load wait for the last one) if
// the piece is `whole`. dx may be x: each thread reads an element before it writes it.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads)
    backward_kernel(BackwardInputs in, const T* x, int64_t x_stride, const Sum<T>* lse, T* dx, int64_t dx_stride,
                    int64_t cols, uint32_t pieces, bool aligned) {
  constexpr int kN = kPack<T>, kStep = kBackwardThreads * kN;
  __shared__ BackwardTerms<Sum<T>> shared;
  const uint32_t row = blockIdx.x / pieces, piece = blockIdx.x - row * pieces;
  const int64_t chosen = in.target[row], first = int64_t{piece} * (kBackwardPacks * kStep) + threadIdx.x * kN;
  const bool whole = aligned && (int64_t{piece} + 1) * (kBackwardPacks * kStep) <= cols;
  x += row * x_stride + first;
  dx += row * dx_stride + first;
  Pack<T> packs[kBackwardPacks] = {};
  if (chosen == in.options.ignore_index) {
#pragma unroll
    for (int k = 0; k < kBackwardPacks; ++k)
      store_pack<kN>(dx + k * kStep, packs[k], cols - first - k * kStep, aligned);
    return;
  }
  if (whole) {
#pragma unroll
    for (int k = 0; k < kBackwardPacks; ++k) packs[k] = load_pack<kN>(x + k * kStep, kN, true);
  }
  if (threadIdx.x == 0) shared = backward_terms<Sum<T>>(in, cols, lse[row]);
  __syncthreads();
  const BackwardTerms<Sum<T>> terms = shared;
  if (whole) {
#pragma unroll
    for (int k = 0; k < kBackwardPacks; ++k) {
      store_pack<kN>(dx + k * kStep, gradient_of<T>(packs[k], terms, chosen - first - k * kStep), kN, true);
    }
    return;
  }
#pragma unroll 1
  for (int64_t at = 0; at < kBackwardPacks * kStep && first + at < cols; at += kStep) {
    const Pack<T> pack = load_pack<kN>(x + at, cols - first - at, aligned);
    store_pack<kN>(dx + at, gradient_of<T>(pack, terms, chosen - first - at), cols - first - at, aligned);
  }
}

constexpr int64_t kSmallestRow = 8 << 10;  ///< bytes; shorter rows stay in L2 between two kernels anyway

/// The most bytes of a row in shared memory: two CTAs fit on a multiprocessor of an H200, one on those with less.
int64_t largest_row() {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index()), "cross_entropy");
  return std::min<int64_t>(112 << 10, most - (2 << 10));
}

// Both passes over a row of whole, aligned packs. The row waits in shared memory between them; each thread reads back
// only what it has written itself.
template <class T>
__global__ void __launch_bounds__(kLongGroup) gradient_kernel(BackwardInputs in, const T* x, int64_t x_stride,
                                                              double* losses, T* dx, int64_t dx_stride, int64_t cols) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  extern __shared__ uint4 held[];
  __shared__ BackwardTerms<S> shared;
  const int64_t row = blockIdx.x, chosen = in.target[row];
  const int packs = static_cast<int>(cols / kN), thread = static_cast<int>(threadIdx.x);
  const bool ignored = chosen == in.options.ignore_index, smoothed = in.options.label_smoothing > 0;
  const T* const logits = x + row * x_stride;
  auto* const result = reinterpret_cast<uint4*>(dx + row * dx_stride);
  if (ignored) {
    if (thread == 0) losses[row] = 0;
    for (int n = thread; n < packs; n += kLongGroup) result[n] = uint4{};
    return;
  }
  const double own = static_cast<double>(wide(logits[chosen]));
  RowSums<S> sums;
#pragma unroll 4
  for (int n = thread; n < packs; n += kLongGroup) {
    const uint4 bits = reinterpret_cast<const uint4*>(logits)[n];
    held[n] = bits;
    sums.template add<T>(std::bit_cast<Pack<T>>(bits), kN, smoothed);
  }
  sums.powers.template combine<T, kLongGroup>();
  const double total = smoothed ? group_sum<kLongGroup>(static_cast<double>(sums.plain)) : 0.0;
  if (thread == 0) {
    const RowLoss loss = row_loss(sums.powers, total, own, in.options.label_smoothing, cols);
    losses[row] = loss.loss;
    shared = backward_terms<S>(in, cols, static_cast<S>(loss.lse));
  }
  __syncthreads();
  const BackwardTerms<S> terms = shared;
#pragma unroll 4
  for (int n = thread; n < packs; n += kLongGroup) {
    const auto pack = std::bit_cast<Pack<T>>(held[n]);
    result[n] = std::bit_cast<uint4>(gradient_of<T>(pack, terms, chosen - int64_t{n} * kN));
  }
}

}  // namespace

void count_targets(ConstRows target, int64_t ignore_index, Rows count) {
  count_kernel<<<1, kScalarThreads, 0, stream()>>>(static_cast<const int64_t*>(target.data), target.numel(),
                                                   ignore_index, static_cast<int64_t*>(count.data));
  check_launch("cross_entropy.count");
}

void cross_entropy(ConstRows x, ConstRows target, const CrossEntropyOptions& options, Rows losses, Rows lse) {
  if (x.rows == 0) return;
  with_float(x.dtype, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const auto launch = [&]<int kGroup>() {
      forward_kernel<T, kGroup><<<group_grid<kGroup>(x.rows), kCta<kGroup>, 0, stream()>>>(
          static_cast<const T*>(x.data), x.stride, x.rows, x.cols, rows_aligned(x, kPack<T>),
          static_cast<const int64_t*>(target.data), options, static_cast<double*>(losses.data),
          static_cast<Sum<T>*>(lse.data));
    };
    x.cols <= kWarpCols ? launch.template operator()<32>() : launch.template operator()<kLongGroup>();
  });
  check_launch("cross_entropy.forward");
}

void mean_loss(ConstRows losses, ConstRows count, Rows loss) {
  mean_kernel<<<1, kScalarThreads, 0, stream()>>>(static_cast<const double*>(losses.data), losses.numel(),
                                                  static_cast<const int64_t*>(count.data), loss.data, loss.dtype);
  check_launch("cross_entropy.mean");
}

void cross_entropy_backward(ConstRows dloss, ConstRows x, ConstRows target, ConstRows lse, ConstRows count,
                            const CrossEntropyOptions& options, Rows dx) {
  if (x.numel() == 0) return;
  with_float(x.dtype, "cross_entropy_backward", [&](auto type) {
    using T = decltype(type);
    const int64_t pieces = ceil_div(x.cols, int64_t{kBackwardThreads} * kBackwardPacks * kPack<T>);
    require<ShapeError>(x.rows * pieces < (int64_t{1} << 31), "cross_entropy: x has too many elements for one call");
    const auto grid = static_cast<unsigned>(x.rows * pieces);
    backward_kernel<T><<<grid, kBackwardThreads, 0, stream()>>>(
        {dloss.data, dloss.dtype, static_cast<const int64_t*>(target.data), static_cast<const int64_t*>(count.data),
         options},
        static_cast<const T*>(x.data), x.stride, static_cast<const Sum<T>*>(lse.data), static_cast<T*>(dx.data),
        dx.stride, x.cols, static_cast<uint32_t>(pieces), rows_aligned(x, kPack<T>) && rows_aligned(dx, kPack<T>));
  });
  check_launch("cross_entropy.backward");
}

void cross_entropy_with_gradient(ConstRows x, ConstRows target, ConstRows count, const CrossEntropyOptions& options,
                                 Rows losses, Rows dx) {
  if (x.rows == 0) return;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype)) * x.cols;
  with_float(x.dtype, "cross_entropy.with_gradient", [&](auto type) {
    using T = decltype(type);
    using S = Sum<T>;
    const bool fits = bytes >= kSmallestRow && bytes <= largest_row() && x.cols % kPack<T> == 0 &&
                      rows_aligned(x, kPack<T>) && rows_aligned(dx, kPack<T>) && x.rows < (int64_t{1} << 31);
    if (!fits) {
      const Scratch<S> lse(x.rows);
      const Rows sums{lse.data(), sizeof(S) == 8 ? DType::f64 : DType::f32, 1, x.rows, x.rows};
      cross_entropy(x, target, options, losses, sums);
      cross_entropy_backward({}, x, target, sums, count, options, dx);
      return;
    }
    check(
        cudaFuncSetAttribute(gradient_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cross_entropy.with_gradient");
    gradient_kernel<T><<<static_cast<unsigned>(x.rows), kLongGroup, static_cast<size_t>(bytes), stream()>>>(
        {nullptr, DType::f32, static_cast<const int64_t*>(target.data), static_cast<const int64_t*>(count.data),
         options},
        static_cast<const T*>(x.data), x.stride, static_cast<double*>(losses.data), static_cast<T*>(dx.data), dx.stride,
        x.cols);
    check_launch("cross_entropy.with_gradient");
  });
}

}  // namespace attend::cuda
