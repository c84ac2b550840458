#pragma once

#include "backend/cuda/attention/hopper_schedule.h"
#include "backend/cuda/attention/hopper_score.cuh"
#include "backend/cuda/attention/marks.h"

// The parts of the backward pass on Hopper: plan_tiles, prepare_rows, the kernel of hopper_backward.cu, finish_queries.
namespace attend::cuda {

inline constexpr int kBackwardKeys = 128;  ///< of a block
/// Queries of a block. Options need registers and shared memory.
inline constexpr int block_queries(int64_t dim, bool scored) { return dim == 64 && !scored ? 128 : 64; }

/// A block of keys and the query blocks that see it. A bulk copy brings it into shared memory.
struct alignas(16) BackwardTile {
  int batch;  ///< −1: no more tiles
  int key_head;
  int block;             ///< of keys; −1: an item without this tile
  int queries, keys;     ///< of the sequence
  int sequence;          ///< its number, if sequences are packed
  int q_begin, k_begin;  ///< its first query and key
  int first_block;       ///< the number of its first query block
  Walk walk;
  int clear_begin, clear_end;  ///< query blocks whose every query sees every key
  int steps;                   ///< query blocks, for all query heads of the key head
  int wave_end;                ///< the ticket behind those of its wave
  bool is_last;                ///< of its item
};

struct BackwardArguments {
  CUtensorMap q, k, v, dy;
  // For every batch entry and head; queries are padded to whole blocks.
  float* lse;          ///< [padded queries], times log2 e; +inf if a query sees no key, so that its weights are 0
  float* delta;        ///< [padded queries]: Σ dy · y
  float* dq;           ///< [query blocks, 2, 8, 128, 4]: unscaled sums as the threads of two warpgroups hold them
  uint32_t* turns;     ///< [query blocks]: the number of parts that dq has; 0 at first
  uint32_t* ticket;    ///< the next ticket, 0 at first
  BackwardTile* plan;  ///< [tickets, 2], then one with batch −1
  int* tickets;        ///< their number
  BlockMarks query_marks, key_marks;
  ScoreOptions options;  ///< unused by kernels without options
  CUtensorMap dbias;     ///< of [queries, keys] for each batch entry and head
  bool has_dbias;
  void *dk, *dv;  ///< each may be null
  RowStrides dk_strides, dv_strides;
  const int64_t *lengths, *q_offsets, *k_offsets;
  int sequences;  ///< batch entries or packed sequences
  ScheduleOptions schedule;
  float scale, scale_log2;  ///< scale_log2 = scale · log2 e
  int heads, key_heads;
  int query_blocks;  ///< of all sequences of a batch entry; some numbers have no block if sequences are packed

#ifdef __CUDACC__
  struct Sequence {
    int batch, q_begin, queries, k_begin, keys;
  };
  __device__ __forceinline__ Sequence sequence(int index) const {
    if (q_offsets != nullptr) {
      const int q = static_cast<int>(q_offsets[index]), k = static_cast<int>(k_offsets[index]);
      return {0, q, static_cast<int>(q_offsets[index + 1]) - q, k, static_cast<int>(k_offsets[index + 1]) - k};
    }
    const VisibilityOptions& of = schedule.visibility;
    return {index, 0, of.queries, 0, lengths != nullptr ? static_cast<int>(lengths[index]) : of.keys};
  }
#endif
};

/// Fills args.plan and args.tickets.
void plan_tiles(const BackwardArguments& args, int queries_per_block);
/// Fills args.lse and args.delta.
void prepare_rows(const BackwardArguments& args, const AttentionGradients& gradients, int queries_per_block);
/// Writes scale · args.dq to dq, whose rows allow accesses of 16 bytes.
void finish_queries(const BackwardArguments& args, View dq, int queries_per_block);
/// Writes 0 to the rows of dk and dv in blocks of keys that are padding only.
void clear_padding(const BackwardArguments& args, const AttentionGradients& gradients);

/// The backward pass with the gradient of a bias that batch entries or heads share, or that bulk copies cannot write:
/// by calls of hopper_backward for some of the heads at a time. The problem is one that hopper_backward handles without
/// this gradient. Returns false, without doing anything, if queries or keys share elements of the bias, or with packed
/// sequences, softcap or dropout.
bool backward_with_buffer(const AttentionProblem& problem, const AttentionGradients& gradients);

/// True if rows of 8 elements can be read and written as 16 bytes.
inline bool has_wide_rows(const ConstView& view) {
  const auto fits = [&](int axis) { return view.shape[axis] <= 1 || view.strides[axis] % 8 == 0; };
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.strides[3] == 1 && fits(0) && fits(1) && fits(2);
}

}  // namespace attend::cuda
