#pragma once

#include "backend/cuda/attention/numbers.h"
#include "backend/cuda/attention/tile.cuh"

// Tiles of 16-bit elements in shared memory and their products by mma.sync, m16n8k16 with f32 sums. A CTA has four
// warps. Of a product's 16 × 8 tile, lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1: elements 0 and 1 are
// in row g, elements 2 and 3 in row g + 8. The order of every sum depends only on the number of columns of the tiles.
namespace attend::cuda::attention {

inline constexpr int kTensorThreads = 128, kTensorWarps = 4;

/// A [batch, heads, length, dim] tensor of 16-bit elements with unit last stride.
struct HalfRows {
  uint16_t* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  ///< strides in elements
  bool wide = false;                     ///< every row is a multiple of 16 bytes, 16-byte aligned

  __device__ uint16_t* at(int b, int h, int i) const { return data + b * batch + h * head + i * row; }
};

inline HalfRows half_rows_of(const ConstView& view) {
  if (!view) return {};
  const auto fits = [&](int64_t axis) { return view.shape[axis] <= 1 || view.strides[axis] % 8 == 0; };
  return {.data = static_cast<uint16_t*>(const_cast<void*>(view.data)),
          .batch = view.strides[0],
          .head = view.strides[1],
          .row = view.strides[2],
          .wide = reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.shape[3] % 8 == 0 && fits(0) && fits(1) &&
                  fits(2)};
}

/// Calls f with a value of the type of the elements and the head-size class, at least `largest`.
template <class F>
void with_half_class(DType dtype, int largest, F&& f) {
  using std::integral_constant;
  const auto with_type = [&](auto size) {
    if (dtype == DType::bf16) return f(__nv_bfloat16{}, size);
    return f(__half{}, size);
  };
  if (largest <= 64) return with_type(integral_constant<int, 64>{});
  if (largest <= 128) return with_type(integral_constant<int, 128>{});
  return with_type(integral_constant<int, 256>{});
}

/// Chunks of 8 elements that are permuted among themselves within a row, so that eight rows in a row lie in different
/// banks.
template <int D>
inline constexpr int kPermuted = D % 64 == 0 ? 8 : 4;

template <int D>
__device__ __forceinline__ int permutation(int row) {
  return kPermuted<D> == 8 ? row & 7 : row / 2 & 3;
}

/// Index of a chunk of a tile with D columns.
template <int D>
__device__ __forceinline__ int half_index(int row, int chunk) {
  return row * D + (chunk ^ permutation<D>(row)) * 8;
}

/// Element 0 (the lower one) or 1 of a pair.
template <class T>
__device__ __forceinline__ float unpack(uint32_t pair, int which) {
  const auto bits = static_cast<unsigned short>(which == 0 ? pair : pair >> 16);
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(__ushort_as_half(bits));
  else
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

/// Starts to load rows [0, count) of `dim` elements into a tile of kRows rows. All other elements become 0.
template <int kRows, int D>
__device__ __forceinline__ void load_half_tile(uint16_t* tile, const HalfRows& rows, const uint16_t* from, int count,
                                               int dim) {
  constexpr int kChunks = D / 8, kLanes = kChunks <= 8 ? 8 : kChunks <= 16 ? 16 : 32;
  constexpr int kStep = kTensorThreads / kLanes;
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % kLanes, valid = dim - chunk * 8;
  if (chunk >= kChunks) return;
  if (rows.wide) {
    const uint16_t* source = from + (thread / kLanes) * rows.row + chunk * 8;
#pragma unroll
    for (int row = thread / kLanes; row < kRows; row += kStep, source += kStep * rows.row) {
      const bool exists = row < count && valid > 0;
      copy_async(tile + half_index<D>(row, chunk), exists ? source : rows.data, exists);
    }
    return;
  }
#pragma unroll 1
  for (int row = thread / kLanes; row < kRows; row += kStep) {
    const uint16_t* source = from + row * rows.row + chunk * 8;
    uint32_t words[4] = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (row < count && e < valid) words[e / 2] |= static_cast<uint32_t>(source[e]) << (e % 2 * 16);
    }
    *reinterpret_cast<uint4*>(tile + half_index<D>(row, chunk)) = {words[0], words[1], words[2], words[3]};
  }
}

/// Starts to load one float.
__device__ __forceinline__ void copy_float_async(float* to, const float* from, bool valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(valid ? 4 : 0) : "memory");
}

/// Where a lane reads a tile with D columns for ldmatrix.
template <int D>
struct LanePlace {
  uint32_t base;

  __device__ LanePlace(const uint16_t* tile, int row, int chunk)
      : base(static_cast<uint32_t>(__cvta_generic_to_shared(tile + half_index<D>(row, chunk)))) {}
  /// The place `rows` (a multiple of 8) further down and `pair` pairs of chunks further right.
  __device__ __forceinline__ uint32_t at(int rows, int pair) const {
    constexpr int kPairs = kPermuted<D> / 2;
    return (base ^ (pair % kPairs * 32)) + static_cast<uint32_t>(rows * D * 2 + pair / kPairs * kPairs * 32);
  }
};

/// Rows of the left factor, or of a right factor that is read transposed: 16 rows and 16 columns at a time.
template <int D>
__device__ __forceinline__ LanePlace<D> left_place(const uint16_t* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return LanePlace<D>(tile, lane % 16, lane / 16);
}
/// Rows of the right factor of a product over columns: two tiles of 8 rows, 16 columns at a time.
template <int D>
__device__ __forceinline__ LanePlace<D> right_place(const uint16_t* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return LanePlace<D>(tile, lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// c += a · b for a of 16 × 16 and b of 16 × 8.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Sums of a product of 16 · M rows and 8 · N columns.
template <int M, int N>
using Products = float[M][N][4];
/// 16 · M rows of K 16-bit weights as the left factor.
template <int M, int K>
using Weights = uint32_t[M][K / 16][4];

/// Tiles of D columns have a second, shorter form for problems with fewer columns.
template <int D>
inline constexpr int kShorter = D == 64 ? 32 : D / 4 * 3;

/// products[m][n] = left rows · right rows, over kColumns of D columns.
template <class T, int kColumns, int D, int M, int N>
__device__ __forceinline__ void multiply_columns(const LanePlace<D>& left, const LanePlace<D>& right,
                                                 Products<M, N>& products) {
#pragma unroll
  for (int step = 0; step < kColumns / 16; ++step) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_matrices(a[m], left.at(16 * m, step));
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      load_matrices(b, right.at(8 * n, step));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add<T>(products[m][n], a[m], b[0], b[1]);
        multiply_add<T>(products[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
/// products = rows of `left` · rows of `right`, of which the first `columns` columns are in use.
template <class T, int D, int M, int N>
__device__ __forceinline__ void multiply_tiles(const uint16_t* left, const uint16_t* right, int columns,
                                               Products<M, N>& products) {
#pragma unroll
  for (auto& row : products) {
#pragma unroll
    for (auto& tile : row) tile[0] = tile[1] = tile[2] = tile[3] = 0;
  }
  if (columns <= kShorter<D>)
    multiply_columns<T, kShorter<D>>(left_place<D>(left), right_place<D>(right), products);
  else
    multiply_columns<T, D>(left_place<D>(left), right_place<D>(right), products);
}

/// sums += weights · b, for a tile b of K rows and kColumns of D columns.
template <class T, int kColumns, int K, int D, int M>
__device__ __forceinline__ void add_columns(const Weights<M, K>& weights, const LanePlace<D>& b,
                                            Products<M, D / 8>& sums) {
#pragma unroll
  for (int step = 0; step < K / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t right[4];
      load_transposed(right, b.at(16 * step, n / 2));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add<T>(sums[m][n], weights[m][step], right[0], right[1]);
        multiply_add<T>(sums[m][n + 1], weights[m][step], right[2], right[3]);
      }
    }
  }
}
/// sums += weights · b, for a tile b of K rows, of which the first `columns` columns are in use.
template <class T, int D, int K, int M>
__device__ __forceinline__ void add_tiles(const Weights<M, K>& weights, const uint16_t* b, int columns,
                                          Products<M, D / 8>& sums) {
  if (columns <= kShorter<D>)
    add_columns<T, kShorter<D>, K, D>(weights, left_place<D>(b), sums);
  else
    add_columns<T, D, K, D>(weights, left_place<D>(b), sums);
}

/// A product, rounded to T, as the left factor of the next product.
template <class T, int M, int N>
__device__ __forceinline__ void pack_weights(const Products<M, N>& products, Weights<M, 8 * N>& weights) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      weights[m][n / 2][n % 2 * 2] = pack<T>(products[m][n][0], products[m][n][1]);
      weights[m][n / 2][n % 2 * 2 + 1] = pack<T>(products[m][n][2], products[m][n][3]);
    }
  }
}

/// 0 · x summed over a chunk: 0, or NaN if an element is not finite.
template <class T>
__device__ __forceinline__ bool chunk_is_finite(const uint16_t* chunk) {
  const uint4 bits = *reinterpret_cast<const uint4*>(chunk);
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const uint32_t words[4]{bits.x, bits.y, bits.z, bits.w};
  Pair sum, zero;
  memset(&zero, 0, sizeof(zero));
  sum = zero;
#pragma unroll
  for (uint32_t word : words) {
    Pair pair;
    memcpy(&pair, &word, sizeof(pair));
    sum = __hfma2(pair, zero, sum);
  }
  uint32_t result;
  memcpy(&result, &sum, sizeof(result));
  return (result & 0x7fff7fffu) == 0;
}

/// Whether this thread's share of a tile is finite.
template <class T, int kRows, int D>
__device__ __forceinline__ bool half_share_is_finite(const uint16_t* tile) {
  bool finite = true;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x); n < kRows * D / 8; n += kTensorThreads)
    finite = chunk_is_finite<T>(tile + n * 8) && finite;
  return finite;
}

/// Adds weights · b for the rows of b that are not finite, without weights of 0, because 0 · NaN = NaN. Then clears
/// these rows. All threads of the CTA call it. Slow: only for tiles with such rows.
template <class T, int D, int K, int M>
__device__ __forceinline__ void add_unusual_rows(const Weights<M, K>& weights, uint16_t* b, Products<M, D / 8>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto is_unusual = [&](int row) {
    return __any_sync(~0u, lane < D / 8 && !chunk_is_finite<T>(b + half_index<D>(row, lane < D / 8 ? lane : 0)));
  };
  // Copies that may be indexed at run time.
  uint32_t weight[M * K / 4];
  float sum[M * D / 2];
#pragma unroll
  for (int n = 0; n < M * K / 4; ++n) weight[n] = weights[n / (K / 4)][n / 4 % (K / 16)][n % 4];
#pragma unroll
  for (int n = 0; n < M * D / 2; ++n) sum[n] = sums[n / (D / 2)][n / 4 % (D / 8)][n % 4];
#pragma unroll 1
  for (int row = 0; row < K; ++row) {
    if (!is_unusual(row)) continue;
#pragma unroll 1
    for (int half = 0; half < 2 * M; ++half) {
      const uint32_t pair = weight[half / 2 * (K / 4) + row / 16 * 4 + row % 16 / 8 * 2 + half % 2];
      const float factor = unpack<T>(__shfl_sync(~0u, pair, (lane & ~3) | (row % 8 / 2)), row % 2);
      if (factor == 0) continue;
#pragma unroll 1
      for (int n = 0; n < D / 8; ++n) {
        const uint32_t value = *reinterpret_cast<const uint32_t*>(b + half_index<D>(row, n) + lane % 4 * 2);
        float* at = sum + half / 2 * (D / 2) + n * 4 + half % 2 * 2;
        at[0] = fmaf(factor, unpack<T>(value, 0), at[0]);
        at[1] = fmaf(factor, unpack<T>(value, 1), at[1]);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < M * D / 2; ++n) sums[n / (D / 2)][n / 4 % (D / 8)][n % 4] = sum[n];
  __syncthreads();
#pragma unroll 1
  for (int row = warp; row < K; row += kTensorWarps) {
    if (is_unusual(row) && lane < D / 8) *reinterpret_cast<uint4*>(b + half_index<D>(row, lane)) = {};
  }
  __syncthreads();
}

/// Writes the warp's 16 · M rows of a product, times factor[m][half], as rows of `dim` elements. `tile` is memory of
/// the warp for these rows.
template <class T, int D, int M>
__device__ __forceinline__ void store_half_rows(uint16_t* tile, const HalfRows& rows, uint16_t* to, int count, int dim,
                                                const float (&factor)[M][2], const Products<M, D / 8>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + lane / 4;
        *reinterpret_cast<uint32_t*>(tile + half_index<D>(row, n) + lane % 4 * 2) =
            pack<T>(sums[m][n][2 * half] * factor[m][half], sums[m][n][2 * half + 1] * factor[m][half]);
      }
    }
  }
  __syncwarp();
#pragma unroll 2
  for (int n = lane; n < 16 * M * (D / 8); n += 32) {
    const int row = n / (D / 8), chunk = n % (D / 8), valid = dim - chunk * 8;
    if (row >= count || valid <= 0) continue;
    const uint16_t* from = tile + half_index<D>(row, chunk);
    uint16_t* out = to + row * rows.row + chunk * 8;
    if (rows.wide) {
      *reinterpret_cast<uint4*>(out) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int e = 0; e < min(8, valid); ++e) out[e] = from[e];
    }
  }
}

}  // namespace attend::cuda::attention
