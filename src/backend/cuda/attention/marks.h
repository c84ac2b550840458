#pragma once

#include <algorithm>
#include <cstdint>

namespace attend::cuda {

/// Marks of blocks of rows of a [batch, heads, length] tensor. A hidden key has weight 0, and 0 · NaN is NaN: a kernel
/// that multiplies whole tiles marks the blocks of its results that are not finite, and a kernel that skips hidden keys
/// computes these blocks again.
struct BlockMarks {
  uint32_t* any = nullptr;   ///< not 0: a block is marked; null: there are no marks
  uint8_t* marks = nullptr;  ///< [batch, heads, blocks]
  int rows = 1;              ///< of a block
  int blocks = 0;

  /// CTAs of the second kernel, which take `tasks` in turn: `few` with marks, because marked blocks are rare.
  int64_t ctas(int64_t tasks, int64_t few) const { return any != nullptr ? std::min(tasks, few) : tasks; }

#ifdef __CUDACC__
  /// The row that stands for row `first` of packed sequence `sequence`, whose first row is `begin`: no block has rows
  /// of two sequences. The number of blocks is then that of all rows, plus one for each sequence.
  __device__ __forceinline__ int packed_row(int begin, int sequence, int first) const {
    return (begin / rows + sequence) * rows + first;
  }
  __device__ __forceinline__ void mark(int64_t slice, int row) const {
    marks[slice * blocks + row / rows] = 1;
    *any = 1;
  }
  /// For the second kernel: whether no block is marked, or not that of a row.
  __device__ __forceinline__ bool skips_all() const { return any != nullptr && *any == 0; }
  __device__ __forceinline__ bool skips(int64_t slice, int row) const {
    return any != nullptr && (*any == 0 || marks[slice * blocks + row / rows] == 0);
  }
#endif
};

}  // namespace attend::cuda
