#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attend/base/view.h"
#include "backend/cuda/runtime.h"
#include "backend/with_bits.h"

// Element types on the device, dispatch by dtype, and 16-byte packs of elements.
namespace attend::cuda {

/// Calls f with a value of the C++ type of `dtype`. Throws ShapeError, which names `kernel`, unless it is a float type.
template <class F>
void with_float(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Float16{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      throw_error<ShapeError>(kernel, ": expected a float type, got ", dtype);
  }
}

template <class T>
constexpr bool kIs16Bit = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// The type of sums and statistics over elements of type T: f32, or f64 for f64.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float wide(float x) { return x; }
__device__ inline double wide(double x) { return x; }
__device__ inline float wide(BFloat16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
__device__ inline float wide(Float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

/// Rounds to nearest, ties to even.
template <class T>
__device__ inline T narrow(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  } else if constexpr (std::is_same_v<T, Float16>) {
    Float16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  } else {
    return static_cast<T>(x);
  }
}
template <class T>
__device__ inline T narrow(double x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return narrow<T>(static_cast<float>(x));
}

/// A float scalar or row whose dtype is known only at run time.
__device__ inline double load_any(const void* data, DType dtype, int64_t at) {
  switch (dtype) {
    case DType::f64:
      return static_cast<const double*>(data)[at];
    case DType::bf16:
      return wide(static_cast<const BFloat16*>(data)[at]);
    case DType::f16:
      return wide(static_cast<const Float16*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}
__device__ inline void store_any(void* data, DType dtype, int64_t at, double value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(data)[at] = value;
      break;
    case DType::bf16:
      static_cast<BFloat16*>(data)[at] = narrow<BFloat16>(value);
      break;
    case DType::f16:
      static_cast<Float16*>(data)[at] = narrow<Float16>(value);
      break;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

/// The number of elements of type T in 16 bytes.
template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// N neighbouring elements, moved by accesses of up to 16 bytes.
template <class T, int N = kPack<T>>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};

/// The first `valid` elements of a pack at `from`; the others are `rest`. `aligned`: `from` allows whole accesses.
template <int N, class T>
__device__ inline Pack<T, N> load_pack(const T* from, int64_t valid, bool aligned, T rest = T{}) {
  if (aligned && valid >= N) return *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = i < valid ? from[i] : rest;
  return pack;
}
/// Stores a pack by accesses of 16 bytes. In assembly, because the compiler stores many packs element by element.
template <int N, class T>
__device__ inline void store_whole(T* to, const Pack<T, N>& pack) {
  if constexpr (N * sizeof(T) % 16 == 0) {
    constexpr int kWords = N * static_cast<int>(sizeof(T)) / 4;
    const auto words = __builtin_bit_cast(Pack<uint32_t, kWords>, pack);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<uint32_t*>(to) + i), "r"(words.at[i]),
                   "r"(words.at[i + 1]), "r"(words.at[i + 2]), "r"(words.at[i + 3])
                   : "memory");
    }
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}
template <int N, class T>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack, int64_t valid, bool aligned) {
  if (aligned && valid >= N) return store_whole(to, pack);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < valid) to[i] = pack.at[i];
  }
}

/// Whether packs of n elements of every row of a matrix may be moved by whole accesses.
template <class Pointer>
bool rows_aligned(const BasicRows<Pointer>& x, int64_t n) {
  const int64_t item = static_cast<int64_t>(size_of(x.dtype)), unit = std::min<int64_t>(16, n * item);
  return reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(unit) == 0 &&
         (x.rows <= 1 || x.stride * item % unit == 0);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The number of CTAs for `tasks`, which each CTA takes in steps of the grid.
inline unsigned grid_size(int64_t tasks, int64_t most = int64_t{1} << 30) {
  return static_cast<unsigned>(std::max<int64_t>(1, std::min(tasks, most)));
}

}  // namespace attend::cuda
