#pragma once

#include "backend/cuda/attention/score.cuh"

// Attention of a few queries over a long cache, in chunks of keys: what its kernels share. Chunks are counted from a
// sequence's first key and have a fixed size, so that the bits of a row depend on nothing else in the batch.
namespace attend::cuda::attention {

/// The fields of AttentionProblem for keys and values in pages; null: there are none.
struct PageTables {
  const int64_t *tables = nullptr, *rows = nullptr, *runs = nullptr;
  int64_t width = 0;  ///< of a table
  int count = 0;      ///< number of runs
};

struct DecodeCall {
  Problem p;
  Rows4 y;
  void* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  void* partials = nullptr;  ///< [batch, heads, queries, chunks, 2 + width]: maximum, sum, output; if chunks > 1
  int chunks = 0;
  PageTables pages{};

  /// The row of k and v that has key `key` of entry b, in pages.
  __device__ int paged_row(int b, int key) const {
    const int64_t page = pages.tables[pages.rows[b] * pages.width + key / kPageKeys];
    return static_cast<int>(page) * static_cast<int>(kPageKeys) + key % static_cast<int>(kPageKeys);
  }
};

/// A row of a key head over one chunk of keys: row r is query r mod queries of head r / queries.
struct ChunkRow {
  int batch = 0, kv_head = 0, row = 0, chunk = 0;
};
template <class C>
struct ChunkSums {
  C top, total, output;  ///< maximum, sum of the weights, sum of the weighted values
};

/// Writes element `column` of a row's output. An only chunk is the result; then the first column also brings the
/// log-sum-exp. Otherwise join_kernel finishes it, with the same rounding.
template <class C>
__device__ void put_chunk(const DecodeCall& call, const ChunkRow& at, int column, const ChunkSums<C>& sums) {
  const Problem& p = call.p;
  const int head = at.kv_head * p.group() + at.row / p.queries, i = at.row % p.queries;
  if (call.chunks == 1) {
    store<C>(call.y.data, call.y.offset(at.batch, head, i) + column, call.y.dtype,
             sums.total == 0 ? C{0} : sums.output / sums.total);
    if (column == 0) {
      static_cast<C*>(call.lse)[at.batch * call.lse_batch + head * call.lse_head + i * call.lse_row] =
          sums.top + log(sums.total);
    }
    return;
  }
  C* partial = static_cast<C*>(call.partials) +
               (((int64_t{at.batch} * p.heads + head) * p.queries + i) * call.chunks + at.chunk) * (2 + p.width);
  partial[2 + column] = sums.output;
  if (column == 0) partial[0] = sums.top, partial[1] = sums.total;
}

/// The kernel for a step of generation: one f32 query per head, a bf16 cache, head size 64 or 128, no options that
/// change scores.
bool can_step(const Problem& p);
int step_keys(const Problem& p);  ///< of a chunk
void launch_step(const DecodeCall& call);

}  // namespace attend::cuda::attention
