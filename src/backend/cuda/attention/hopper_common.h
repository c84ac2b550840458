#pragma once

#include <algorithm>
#include <optional>

#include "backend/cuda/attention/hopper_instructions.h"
#include "backend/cuda/attention/hopper_visibility.h"
#include "backend/cuda/runtime.h"
#include "backend/kernels.h"

// What the forward and the backward pass on Hopper share: maps of tensors for bulk copies, and which problems they
// take.
namespace attend::cuda {

/// A map of a [batch, heads, length, dim] tensor for copies of `rows` × dim tiles in 64-column parts. Empty if the
/// copy engine cannot read the tensor: an address or a stride is not a multiple of 16 bytes.
std::optional<CUtensorMap> tile_map(const ConstView& view, int rows);

/// A map of a [batch, heads, queries, keys] tensor of 16-bit elements or bytes, for boxes of `rows` queries and 128
/// bytes of keys, or empty. A batch or head axis of stride 0 has one element in the map.
std::optional<CUtensorMap> pair_map(const ConstView& view, int rows);

/// The element strides of a [batch, heads, length(, dim)] tensor.
struct RowStrides {
  int64_t batch = 0, head = 0, row = 0;
};
inline RowStrides row_strides(const ConstView& view) { return {view.strides[0], view.strides[1], view.strides[2]}; }

/// Block `index` of packed sequences, of which each is cut into blocks of `rows` rows. Sequence s has the blocks from
/// offsets[s] / rows + s on, so that the sequence is found without a sum over the others. Some numbers have no block.
struct PackedBlock {
  int sequence, begin, length;  ///< of the sequence
  int first;                    ///< row of the sequence; the block does not exist if it is not below `length`
};
inline int packed_blocks(int64_t length, int64_t sequences, int rows) {
  return static_cast<int>((length + rows - 1) / rows + sequences);
}
#ifdef __CUDACC__
__device__ __forceinline__ PackedBlock packed_block(const int64_t* offsets, int sequences, int rows, int index) {
  int low = 0, high = sequences;  // block numbers of `low` begin at or before index, those of `high` do not
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (static_cast<int>(offsets[middle]) / rows + middle <= index ? low : high) = middle;
  }
  const int begin = static_cast<int>(offsets[low]), length = static_cast<int>(offsets[low + 1]) - begin;
  return {low, begin, length, (index - begin / rows - low) * rows};
}
#endif

/// False for head sizes, dtypes and lengths that the Hopper kernels do not implement.
bool is_for_hopper(const AttentionProblem& problem);
/// True if scores are not just scale · q·k with a positive scale, or with dropout: hopper_score.cuh.
bool changes_scores(const AttentionProblem& problem);
VisibilityOptions visibility_options(const AttentionProblem& problem);

}  // namespace attend::cuda
