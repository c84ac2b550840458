#include "backend/cuda/cuda.h"
#include "backend/cuda/reduce.cuh"

// Floor: memory bandwidth. A warp takes a short row, a CTA a long one. Each row is read twice, the second time from the
// caches: the rows in flight on all multiprocessors fit into L2 up to some 100,000 elements of f32.
namespace attend::cuda {
namespace {

enum class Output { softmax, log_softmax, terms };
constexpr int64_t kWarpRow = 2048;  ///< bytes of a row up to which a warp takes it
constexpr int kLongGroup = 512;

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

}  // namespace

void softmax(ConstRows x, Rows y) { forward(Output::softmax, x, y); }
void log_softmax(ConstRows x, Rows y) { forward(Output::log_softmax, x, y); }
/// terms: f32 for 16-bit x, else x's dtype.
void log_softmax_terms(ConstRows x, Rows terms) { forward(Output::terms, x, terms); }
void softmax_backward(ConstRows dy, ConstRows y, Rows dx) { backward(false, dy, y, dx); }
void log_softmax_backward(ConstRows dy, ConstRows y, Rows dx) { backward(true, dy, y, dx); }

}  // namespace attend::cuda
