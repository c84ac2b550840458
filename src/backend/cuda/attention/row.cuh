#pragma once

#include "backend/cuda/attention/score.cuh"

// Products of single queries with rows of k: sixteen lanes share a row, so that its bytes are read side by side.
namespace attend::cuda::attention {

inline constexpr int kRowLanes = 16;

/// A lane's part of a row of at most D elements: chunks lane, lane + 16, …
template <class C, int D>
struct RowPart {
  static constexpr int kChunks = (D / kChunk<C> + kRowLanes - 1) / kRowLanes;
  Chunk<C> chunk[kChunks];

  __device__ __forceinline__ void load(const Rows4& rows, int64_t offset, int dim) {
    const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
#pragma unroll
    for (int n = 0; n < kChunks; ++n) {
      const int column = (lane + n * kRowLanes) * kChunk<C>;
      chunk[n] = load_chunk<C>(rows, offset + column, dim - column);
    }
  }
  __device__ __forceinline__ C dot(const RowPart& other) const {
    C sum = 0;
#pragma unroll
    for (int n = 0; n < kChunks; ++n) {
#pragma unroll
      for (int e = 0; e < kChunk<C>; ++e) sum = fma(chunk[n].at[e], other.chunk[n].at[e], sum);
    }
    return sum;
  }
};

/// The sum over the sixteen lanes that share a row.
template <class C>
__device__ __forceinline__ C sum_of_row(C sum) {
#pragma unroll
  for (int step = 1; step < kRowLanes; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

}  // namespace attend::cuda::attention
