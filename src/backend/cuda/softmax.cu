#include "backend/cuda/cuda.h"
#include "backend/cuda/reduce.cuh"

// Floor: memory bandwidth. A warp takes a short row, a CTA a long one. Each row is read twice, the second time from the
// caches: the rows in flight on all multiprocessors fit into L2 up to some 100,000 elements of f32.
namespace attend::cuda {
namespace {

enum class Output { softmax, log_softmax, terms };
constexpr int64_t kWarpRow = 2048;  ///< bytes of a row up to which a warp takes it
constexpr int kLongGroup = 512;
/// The terms of a row with more elements than this are computed in parts, by several CTAs: a step of a generation has
/// few rows.
constexpr int64_t kPartsRow = 8192, kMostPartRows = 65535;
constexpr int kPartThreads = 256, kPartPacks = 4;

/// Calls f(pack of x as sums, column, valid) for each pack of a row that this thread of the group takes.
template <class T, int kGroup, class F>
__device__ void for_packs(const T* row, int64_t cols, bool aligned, F&& f) {
  constexpr int kN = kPack<T>;
#pragma unroll 4
  for (int64_t col = group_lane<kGroup>() * kN; col < cols; col += kGroup * kN) {
    f(load_pack<kN>(row + col, cols - col, aligned, narrow<T>(kMinusInfinity<float>)), col);
  }
}

template <class T, int N>
__device__ void widen(const Pack<T, N>& pack, Sum<T> (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = wide(pack.at[i]);
}

template <class T, int kGroup>
__global__ void __launch_bounds__(kCta<kGroup>)
    softmax_kernel(Output output, const T* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t cols,
                   bool aligned) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t row = group_row<kGroup>();
  if (row >= rows) return;
  const T* const from = x + row * x_stride;
  RowPowers<S> powers;
  for_packs<T, kGroup>(from, cols, aligned, [&](const Pack<T, kN>& pack, int64_t) {
    S values[kN];
    widen(pack, values);
    powers.template add<T>(values);
  });
  powers.template combine<T, kGroup>();
  const S shift = powers.shift(), log_sum = powers.sum == 0 ? S{0} : log(powers.sum);
  if (output == Output::terms) {
    S* const terms = static_cast<S*>(y) + row * y_stride;
    if (group_lane<kGroup>() == 0) terms[0] = shift, terms[1] = log_sum;
    return;
  }
  const S inverse = powers.sum == 0 ? S{0} : S{1} / powers.sum;
  T* const to = static_cast<T*>(y) + row * y_stride;
  for_packs<T, kGroup>(from, cols, aligned, [&](const Pack<T, kN>& pack, int64_t col) {
    Pack<T, kN> result;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const S value = wide(pack.at[i]) - shift;
      result.at[i] = narrow<T>(output == Output::softmax ? exponential<T>(value) * inverse : value - log_sum);
    }
    store_pack<kN>(to + col, result, cols - col, aligned);
  });
}

/// The powers of one part of a row, of kPartPacks packs per thread: parts is [rows, grid's width].
template <class T>
__global__ void __launch_bounds__(kPartThreads)
    part_kernel(const T* x, int64_t stride, int64_t cols, bool aligned, RowPowers<Sum<T>>* parts) {
  constexpr int kN = kPack<T>;
  const T* const row = x + blockIdx.y * stride;
  Pack<T, kN> packs[kPartPacks];
#pragma unroll
  for (int n = 0; n < kPartPacks; ++n) {
    const int64_t col = ((int64_t{blockIdx.x} * kPartPacks + n) * kPartThreads + threadIdx.x) * kN;
    if (col < cols) packs[n] = load_pack<kN>(row + col, cols - col, aligned, narrow<T>(kMinusInfinity<float>));
  }
  RowPowers<Sum<T>> powers;
#pragma unroll
  for (int n = 0; n < kPartPacks; ++n) {
    if (((int64_t{blockIdx.x} * kPartPacks + n) * kPartThreads + threadIdx.x) * kN >= cols) break;
    Sum<T> values[kN];
    widen(packs[n], values);
    powers.template add<T>(values);
  }
  powers.template combine<T, kPartThreads>();
  if (threadIdx.x == 0) parts[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = powers;
}

/// Joins the parts of a row; a warp does it.
template <class T>
__global__ void __launch_bounds__(32)
    join_kernel(const RowPowers<Sum<T>>* parts, int count, Sum<T>* terms, int64_t stride) {
  RowPowers<Sum<T>> powers;
  for (int n = static_cast<int>(threadIdx.x); n < count; n += 32) {
    powers.template join<T>(parts[int64_t{blockIdx.x} * count + n]);
  }
  powers.template combine<T, 32>();
  if (threadIdx.x != 0) return;
  terms[blockIdx.x * stride] = powers.shift();
  terms[blockIdx.x * stride + 1] = powers.sum == 0 ? Sum<T>{0} : log(powers.sum);
}

/// softmax: dx = y (dy − Σ dy y). log_softmax: dx = dy − e^y Σ dy.
template <class T, int kGroup>
__global__ void __launch_bounds__(kCta<kGroup>)
    softmax_backward_kernel(bool logarithm, const T* dy, int64_t dy_stride, const T* y, int64_t y_stride, T* dx,
                            int64_t dx_stride, int64_t rows, int64_t cols, bool aligned) {
  using S = Sum<T>;
  constexpr int kN = kPack<T>;
  const int64_t row = group_row<kGroup>();
  if (row >= rows) return;
  dy += row * dy_stride;
  y += row * y_stride;
  dx += row * dx_stride;
  S sum = 0;
  const int64_t first = group_lane<kGroup>() * kN;
#pragma unroll 2
  for (int64_t col = first; col < cols; col += kGroup * kN) {
    const Pack<T, kN> upstream = load_pack<kN>(dy + col, cols - col, aligned);
    if (logarithm) {
#pragma unroll
      for (int i = 0; i < kN; ++i) sum += wide(upstream.at[i]);
    } else {
      const Pack<T, kN> value = load_pack<kN>(y + col, cols - col, aligned);
#pragma unroll
      for (int i = 0; i < kN; ++i) sum += wide(upstream.at[i]) * wide(value.at[i]);
    }
  }
  sum = group_sum<kGroup>(sum);
#pragma unroll 2
  for (int64_t col = first; col < cols; col += kGroup * kN) {
    const Pack<T, kN> upstream = load_pack<kN>(dy + col, cols - col, aligned);
    const Pack<T, kN> value = load_pack<kN>(y + col, cols - col, aligned);
    Pack<T, kN> result;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const S g = wide(upstream.at[i]), v = wide(value.at[i]);
      result.at[i] = narrow<T>(logarithm ? g - exponential<T>(v) * sum : v * (g - sum));
    }
    store_pack<kN>(dx + col, result, cols - col, aligned);
  }
}

void forward(Output output, ConstRows x, Rows y) {
  if (x.rows == 0) return;
  with_float(x.dtype, "softmax", [&](auto type) {
    using T = decltype(type);
    const bool aligned = rows_aligned(x, kPack<T>) && (output == Output::terms || rows_aligned(y, kPack<T>));
    const auto launch = [&]<int kGroup>() {
      softmax_kernel<T, kGroup><<<group_grid<kGroup>(x.rows), kCta<kGroup>, 0, stream()>>>(
          output, static_cast<const T*>(x.data), x.stride, y.data, y.stride, x.rows, x.cols, aligned);
    };
    x.cols* int64_t{sizeof(T)} <= kWarpRow ? launch.template operator()<32>()
                                           : launch.template operator()<kLongGroup>();
  });
  check_launch("softmax");
}

void backward(bool logarithm, ConstRows dy, ConstRows y, Rows dx) {
  if (y.rows == 0) return;
  with_float(y.dtype, "softmax_backward", [&](auto type) {
    using T = decltype(type);
    const bool aligned = rows_aligned(dy, kPack<T>) && rows_aligned(y, kPack<T>) && rows_aligned(dx, kPack<T>);
    const auto launch = [&]<int kGroup>() {
      softmax_backward_kernel<T, kGroup><<<group_grid<kGroup>(y.rows), kCta<kGroup>, 0, stream()>>>(
          logarithm, static_cast<const T*>(dy.data), dy.stride, static_cast<const T*>(y.data), y.stride,
          static_cast<T*>(dx.data), dx.stride, y.rows, y.cols, aligned);
    };
    y.cols* int64_t{sizeof(T)} <= kWarpRow ? launch.template operator()<32>()
                                           : launch.template operator()<kLongGroup>();
  });
  check_launch("softmax_backward");
}

void terms_in_parts(ConstRows x, Rows terms) {
  with_float(x.dtype, "softmax", [&](auto type) {
    using T = decltype(type);
    const auto count = static_cast<unsigned>(ceil_div(x.cols, int64_t{kPartThreads} * kPartPacks * kPack<T>));
    const Scratch<RowPowers<Sum<T>>> parts(x.rows * count);
    part_kernel<T><<<dim3(count, static_cast<unsigned>(x.rows)), kPartThreads, 0, stream()>>>(
        static_cast<const T*>(x.data), x.stride, x.cols, rows_aligned(x, kPack<T>), parts.data());
    check_launch("softmax");
    join_kernel<T><<<static_cast<unsigned>(x.rows), 32, 0, stream()>>>(parts.data(), static_cast<int>(count),
                                                                       static_cast<Sum<T>*>(terms.data), terms.stride);
    check_launch("softmax");
  });
}

}  // namespace

void softmax(ConstRows x, Rows y) { forward(Output::softmax, x, y); }
void log_softmax(ConstRows x, Rows y) { forward(Output::log_softmax, x, y); }
/// terms: f32 for 16-bit x, else x's dtype.
void log_softmax_terms(ConstRows x, Rows terms) {
  if (x.rows > 0 && x.rows <= kMostPartRows && x.cols > kPartsRow) return terms_in_parts(x, terms);
  forward(Output::terms, x, terms);
}
void softmax_backward(ConstRows dy, ConstRows y, Rows dx) { backward(false, dy, y, dx); }
void log_softmax_backward(ConstRows dy, ConstRows y, Rows dx) { backward(true, dy, y, dx); }

}  // namespace attend::cuda
