#pragma once

#include <vector>

#include "attend/ops/attention.h"

// Attention over keys and values in pages, on the CPU, in f32 and without gradients. Pages may hold bf16.
namespace attend {

/// Positions in a page. A page of one layer is the keys [key_heads, key_dim, kPagePositions], then the values
/// [key_heads, kPagePositions, value_dim].
constexpr int64_t kPagePositions = 16;

struct PageLayout {
  int64_t key_heads = 1, key_dim = 0, value_dim = 0;
  DType dtype = DType::f32;  ///< f32 or bf16
  /// Of one layer.
  int64_t bytes() const {
    return kPagePositions * key_heads * (key_dim + value_dim) * static_cast<int64_t>(size_of(dtype));
  }
  bool operator==(const PageLayout&) const = default;
};

/// Sequences whose queries are packed one after the other.
struct PagedSequences {
  PageLayout layout;
  std::vector<int64_t> offsets{0};        ///< where the queries of each sequence begin, then the end of the last
  std::vector<int64_t> lengths;           ///< number of keys of each sequence
  std::vector<std::vector<void*>> pages;  ///< addresses of the pages of each sequence

  int64_t count() const { return std::ssize(lengths); }
  int64_t longest() const;
};

/// Writes keys [1, key_heads, tokens, key_dim] and values likewise into the pages, rounded to their dtype: sequence s
/// gets the tokens of its queries as its last positions.
void write_pages(const PagedSequences& sequences, const Tensor& keys, const Tensor& values);

/// attention() of q [1, heads, tokens, key_dim]. Gives each query the bits of attention() with the same keys and
/// values. Of the options, alignment is bottom_right, and mask, lengths, offsets and dropout must not be set.
AttentionResult paged_attention(const Tensor& q, const PagedSequences& sequences, const AttentionOptions& options);

/// A copy in f32 of the keys [1, key_heads, length, key_dim] of sequence s, and of its values.
struct PagedCopy {
  Tensor keys, values;
};
PagedCopy copy_pages(const PagedSequences& sequences, int64_t s);

}  // namespace attend
