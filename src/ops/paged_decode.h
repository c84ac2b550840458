#pragma once

#include "attend/ops/attention.h"

// Attention over keys and values in pages on a GPU, without gradients. No kernel depends on numbers of the host, so
// that a step can be recorded and repeated.
namespace attend {

/// Positions of which a table of pages has a multiple.
constexpr int64_t kTablePositions = 256;
/// Maximum number of tokens of a run.
constexpr int64_t kRunTokens = 8;

/// Keys and values of one layer, and what each token sees of them.
struct DevicePages {
  Tensor keys, values;  ///< [slots, key_heads · dim], f32 or bf16: page n is the slots n · kPagePositions …
  Tensor tables;        ///< i64 [tables, pages]: numbers of pages; kTablePositions divides the number of positions
  Tensor table_rows;    ///< i64 [tokens]: the table of each token
  Tensor lengths;       ///< i64 [tokens]: the number of keys that each token sees
  Tensor runs;          ///< i64 [runs + 1]: adjacent tokens with one table whose lengths do not decrease
};

/// attention() of q [tokens, heads, 1, dim], f32: each token is a query of its own, at the last position that it sees.
/// Of the options, bias [tokens, heads, 1, positions of a table], alibi, window, softcap and scale may be set. The bits
/// of a token depend on its own keys alone.
AttentionResult paged_decode(const Tensor& q, const DevicePages& pages, const AttentionOptions& options);

}  // namespace attend
