#pragma once

#include "backend/cuda/attention/hopper_schedule.h"
#include "backend/cuda/attention/marks.h"

// The parts of the backward pass on Hopper: prepare_rows, the kernel of hopper_backward.cu, finish_queries.
namespace attend::cuda {

struct BackwardArguments {
  CUtensorMap q, k, v, dy;
  // For every batch entry and head; queries are padded to whole blocks.
  float* lse;        ///< [padded queries], times log2 e; +inf if a query sees no key, so that its weights are 0
  float* delta;      ///< [padded queries]: Σ dy · y
  float* dq;         ///< [query blocks, 2, 8, 128, 4]: unscaled sums as the threads of two warpgroups hold them
  uint32_t* turns;   ///< [query blocks, 2]: the number of parts that dq has; 0 at first
  uint32_t* ticket;  ///< the next item, 0 at first
  BlockMarks query_marks, key_marks;
  void *dk, *dv;  ///< each may be null
  RowStrides dk_strides, dv_strides;
  const int64_t* lengths;
  ScheduleOptions schedule;
  float scale, scale_log2;  ///< scale_log2 = scale · log2 e
  int heads, key_heads, query_blocks;
  int items;      ///< of a key head, if its sequence has no padding
  int all_items;  ///< of all key heads and batch entries

  __device__ __forceinline__ int keys_of(int batch) const {
    return lengths != nullptr ? static_cast<int>(lengths[batch]) : schedule.visibility.keys;
  }
};

/// Fills args.lse and args.delta.
void prepare_rows(const BackwardArguments& args, const AttentionGradients& gradients, int padded_queries);
/// Writes scale · args.dq to dq, whose rows allow accesses of 16 bytes.
void finish_queries(const BackwardArguments& args, View dq);
/// Writes 0 to the rows of dk and dv in blocks of keys that are padding only.
void clear_padding(const BackwardArguments& args, const AttentionGradients& gradients);

/// True if rows of 8 elements can be read and written as 16 bytes.
inline bool has_wide_rows(const ConstView& view) {
  const auto fits = [&](int axis) { return view.shape[axis] <= 1 || view.strides[axis] % 8 == 0; };
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.strides[3] == 1 && fits(0) && fits(1) && fits(2);
}

}  // namespace attend::cuda
