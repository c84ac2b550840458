#pragma once

#include "backend/cuda/attention/score.cuh"

// Tiles in shared memory and the two products between them, without tensor cores: exact f32 or f64 arithmetic. A CTA
// has 16 × 8 threads. Thread (y, x) owns rows y + 16 m of a product and columns x + 8 n of scores; a warp owns four
// rows in sixteen, so that weights pass from registers through shared memory to the next product within a warp. The
// order of every sum depends neither on the number of rows in a tile nor on the row's place in it.
namespace attend::cuda::attention {

inline constexpr int kThreads = 128, kRowThreads = 16, kColumnThreads = 8;

struct Place {
  int x, y;
  __device__ Place()
      : x(static_cast<int>(threadIdx.x) % kColumnThreads), y(static_cast<int>(threadIdx.x) / kColumnThreads) {}
};

/// Index of a chunk of a tile with D columns. The chunks of a row are permuted, so that eight rows in a row lie in
/// different banks.
template <class C, int D>
__device__ __forceinline__ int tile_index(int row, int chunk) {
  return row * D + (chunk ^ (row & 7)) * kChunk<C>;
}

/// Index of a chunk and of an element of a tile of scores or weights with N columns.
template <class C, int N>
__device__ __forceinline__ int weight_chunk(int row, int chunk) {
  return row * N + (chunk ^ (2 * (row & 3) & (N / kChunk<C> - 1))) * kChunk<C>;
}
template <class C, int N>
__device__ __forceinline__ int weight_index(int row, int column) {
  return weight_chunk<C, N>(row, column / kChunk<C>) + column % kChunk<C>;
}

template <class C>
__device__ __forceinline__ Chunk<C> chunk_at(const C* at) {
  return *reinterpret_cast<const Chunk<C>*>(at);
}

__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kPending of the committed groups are under way.
template <int kPending = 0>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Starts to load rows [0, count) of `dim` elements from `offset` on into a tile of kRows rows; the other rows become
/// 0. Columns beyond dim, up to a whole chunk, become 0; later chunks keep what they hold.
template <int kRows, int D, class C>
__device__ __forceinline__ void load_tile(C* tile, const Rows4& from, int64_t offset, int count, int dim) {
  constexpr int kChunks = D / kChunk<C>;
  const bool direct = from.aligned && (from.dtype == DType::f32 || from.dtype == DType::f64);
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x); n < kRows * kChunks; n += kThreads) {
    const int row = n / kChunks, chunk = n % kChunks, column = chunk * kChunk<C>;
    if (column >= dim) continue;
    C* to = tile + tile_index<C, D>(row, chunk);
    const int64_t at = offset + row * from.row + column;
    if (direct)
      copy_async(to, static_cast<const C*>(from.data) + (row < count ? at : 0), row < count);
    else
      *reinterpret_cast<Chunk<C>*>(to) = load_chunk<C>(from, at, row < count ? dim - column : 0);
  }
}

/// Whether this thread's share of a tile is finite: x − x is 0 for a finite x and NaN otherwise.
template <int kRows, int D, class C>
__device__ __forceinline__ bool share_is_finite(const C* tile, int dim) {
  constexpr int kChunks = D / kChunk<C>;
  C sum = 0;
  for (int n = static_cast<int>(threadIdx.x); n < kRows * kChunks; n += kThreads) {
    const int row = n / kChunks, chunk = n % kChunks;
    if (chunk * kChunk<C> >= dim) continue;
    const Chunk<C> part = chunk_at(tile + tile_index<C, D>(row, chunk));
#pragma unroll
    for (int e = 0; e < kChunk<C>; ++e) sum += part.at[e] - part.at[e];
  }
  return sum == 0;
}

/// sums[m][n] = a[row m] · b[row n] over the first `depth` columns.
template <int D, int M, int N, class C>
__device__ __forceinline__ void multiply_rows(const C* a, const C* b, int depth, C (&sums)[M][N]) {
  const Place place;
  const C *a_row = a + place.y * D, *b_row = b + place.x * D;
  const int chunks = (depth + kChunk<C> - 1) / kChunk<C>;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) sums[m][n] = 0;
  }
#pragma unroll 2
  for (int c = 0; c < chunks; ++c) {
    const int a_chunk = (c ^ (place.y & 7)) * kChunk<C>, b_chunk = (c ^ place.x) * kChunk<C>;
    Chunk<C> column[N];
#pragma unroll
    for (int n = 0; n < N; ++n) column[n] = chunk_at(b_row + n * kColumnThreads * D + b_chunk);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const Chunk<C> row = chunk_at(a_row + m * kRowThreads * D + a_chunk);
#pragma unroll
      for (int e = 0; e < kChunk<C>; ++e) {
#pragma unroll
        for (int n = 0; n < N; ++n) sums[m][n] = fma(row.at[e], column[n].at[e], sums[m][n]);
      }
    }
  }
}

/// Sums of a product with D columns: thread (y, x) has chunks x + 8 n of rows y + 16 m.
template <class C, int M, int D>
using RowSums = C[M][D / kChunk<C> / kColumnThreads][kChunk<C>];

/// sums[row] += Σ_j weights[row][j] · b[j]. kCareful: skips weights of 0, because 0 · NaN = NaN.
template <bool kCareful, int D, int N, int M, class C>
__device__ __forceinline__ void add_weighted(const C* weights, const C* b, RowSums<C, M, D>& sums) {
  constexpr int kParts = D / kChunk<C> / kColumnThreads;
  const Place place;
#pragma unroll 1
  for (int c = 0; c < N / kChunk<C>; ++c) {
    Chunk<C> weight[M];
#pragma unroll
    for (int m = 0; m < M; ++m) weight[m] = chunk_at(weights + weight_chunk<C, N>(place.y + m * kRowThreads, c));
#pragma unroll
    for (int e = 0; e < kChunk<C>; ++e) {
      const int j = c * kChunk<C> + e;
      const C* row = b + j * D + (place.x ^ (j & 7)) * kChunk<C>;
      Chunk<C> part[kParts];
#pragma unroll
      for (int n = 0; n < kParts; ++n) part[n] = chunk_at(row + n * kColumnThreads * kChunk<C>);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        if (kCareful && weight[m].at[e] == 0) continue;
#pragma unroll
        for (int n = 0; n < kParts; ++n) {
#pragma unroll
          for (int i = 0; i < kChunk<C>; ++i) sums[m][n][i] = fma(weight[m].at[e], part[n].at[i], sums[m][n][i]);
        }
      }
    }
  }
}

/// Writes the first `count` rows of a product, times `factor`, as rows of `dim` elements from `offset` on.
template <int D, int M, class C>
__device__ __forceinline__ void store_rows(const Rows4& to, int64_t offset, int count, int dim, C factor,
                                           const RowSums<C, M, D>& sums) {
  constexpr int kParts = D / kChunk<C> / kColumnThreads;
  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int row = place.y + m * kRowThreads;
    if (row >= count) continue;
#pragma unroll
    for (int n = 0; n < kParts; ++n) {
      const int column = (place.x + n * kColumnThreads) * kChunk<C>;
      Chunk<C> chunk;
#pragma unroll
      for (int i = 0; i < kChunk<C>; ++i) chunk.at[i] = multiply_alone(sums[m][n][i], factor);
      store_chunk<C>(to, offset + row * to.row + column, dim - column, chunk);
    }
  }
}

/// Moves a thread's scores to and from a tile of N · 8 columns.
template <int M, int N, class C>
__device__ __forceinline__ void put_scores(C* tile, const C (&scores)[M][N]) {
  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      tile[weight_index<C, N * kColumnThreads>(place.y + m * kRowThreads, place.x + n * kColumnThreads)] = scores[m][n];
    }
  }
}
template <int M, int N, class C>
__device__ __forceinline__ void get_scores(const C* tile, C (&scores)[M][N]) {
  const Place place;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      scores[m][n] = tile[weight_index<C, N * kColumnThreads>(place.y + m * kRowThreads, place.x + n * kColumnThreads)];
    }
  }
}

/// Calls f(row, column) for four columns at a time, `column` the first of them, of the rows that this warp owns in a
/// tile of 16 · M rows and kColumns columns.
template <int M, int kColumns, class F>
__device__ __forceinline__ void for_own_rows(F&& f) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int n = lane; n < 4 * M * (kColumns / 4); n += 32) {
    const int owned = n / (kColumns / 4);
    f(warp * 4 + owned % 4 + owned / 4 * kRowThreads, n % (kColumns / 4) * 4);
  }
}

/// Calls f(row, column) for four rows at a time, `row` the first of them.
template <int M, int kColumns, class F>
__device__ __forceinline__ void for_own_columns(F&& f) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int n = lane; n < M * kColumns; n += 32) f(warp * 4 + n / kColumns * kRowThreads, n % kColumns);
}

}  // namespace attend::cuda::attention
