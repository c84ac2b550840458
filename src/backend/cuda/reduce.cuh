#pragma once

#include <limits>

#include "backend/cuda/types.cuh"

// Reductions over a group of threads that shares a row: a warp (kGroup = 32) or a CTA. The order is fixed, and every
// thread of the group gets the result.
namespace attend::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// Ignores NaN.
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

template <class T, class F>
__device__ T warp_reduce(T value, F combine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

template <int kGroup, class T, class F>
__device__ T group_reduce(T value, F combine) {
  value = warp_reduce(value, combine);
  if constexpr (kGroup > 32) {
    constexpr int kWarps = kGroup / 32;
    __shared__ T partial[kWarps];
    __syncthreads();  // the previous call may still read `partial`
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[threadIdx.x % kWarps];
#pragma unroll
    for (int offset = kWarps / 2; offset > 0; offset /= 2) {
      value = combine(value, __shfl_xor_sync(~0u, value, offset));
    }
  }
  return value;
}
template <int kGroup, class T>
__device__ T group_sum(T value) {
  return group_reduce<kGroup>(value, Plus{});
}

/// Threads of a CTA whose groups take a row each: several warps, or one group.
template <int kGroup>
constexpr int kCta = kGroup > 128 ? kGroup : 128;

/// The row of this thread's group, and the thread's place in the group.
template <int kGroup>
__device__ int64_t group_row() {
  return static_cast<int64_t>(blockIdx.x) * (kCta<kGroup> / kGroup) + threadIdx.x / kGroup;
}
template <int kGroup>
__device__ int group_lane() {
  return static_cast<int>(threadIdx.x) % kGroup;
}
template <int kGroup>
unsigned group_grid(int64_t rows) {
  return static_cast<unsigned>(ceil_div(rows, kCta<kGroup> / kGroup));
}

/// e^x for elements of type T: within 2 ulp, or to about 1e-6 where 16 bits are stored.
template <class T>
__device__ inline Sum<T> exponential(Sum<T> x) {
  if constexpr (std::is_same_v<T, double>)
    return exp(x);
  else if constexpr (kIs16Bit<T>)
    return __expf(x);
  else
    return expf(x);
}

template <class S>
constexpr S kMinusInfinity = -std::numeric_limits<S>::infinity();

/// The largest element of a row and Σ e^(x − shift), where shift is the largest element, or 0 if that is −∞, so that
/// no exponential of a row of −∞ is NaN.
template <class S>
struct RowPowers {
  S max = kMinusInfinity<S>, sum = 0;

  __device__ S shift() const { return shift_of(max); }

  /// Adds N elements.
  template <class T, int N>
  __device__ void add(const S (&x)[N]) {
    S most = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) most = Maximum{}(most, x[i]);
    if (most > max) raise<T>(most);
    const S by = shift();
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exponential<T>(x[i] - by);
  }

  /// Adds another part of the row.
  template <class T>
  __device__ void join(const RowPowers& other) {
    if (other.max > max) raise<T>(other.max);
    sum += other.max == kMinusInfinity<S> ? other.sum : other.sum * exponential<T>(other.max - shift());
  }

  /// Combines the parts of a group's threads.
  template <class T, int kGroup>
  __device__ void combine() {
    raise<T>(group_reduce<kGroup>(max, Maximum{}));
    sum = group_sum<kGroup>(sum);
  }

 private:
  __device__ static S shift_of(S value) { return value == kMinusInfinity<S> ? S{0} : value; }
  template <class T>
  __device__ void raise(S most) {
    if (max != kMinusInfinity<S>) sum *= exponential<T>(max - most);
    max = most;
  }
};

}  // namespace attend::cuda
