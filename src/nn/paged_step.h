#pragma once

#include <string>

#include "attend/nn/transformer.h"
#include "nn/pages.h"

// One step of a generation on the CPU whose keys and values are in pages. Each row reads any number of tokens. All
// tokens are packed into one sequence [1, tokens, dim], so that each product sees them together.
namespace attend {

/// Adjacent rows of a step that are traced together. All read the same number of tokens and hold the same number.
struct TracedRows {
  int64_t first = 0, count = 1;
  std::vector<AttentionTrace> traces{};  ///< filled by the step; self-attention has `count` batch entries
};

struct PagedStep {
  std::vector<int64_t> positions;        ///< of each token
  std::vector<int64_t> offsets{0};       ///< where the tokens of each row begin, then the end of the last row
  std::vector<const PageTable*> tables;  ///< of each row, with room for its new tokens
  /// Of an encoder–decoder: where the tokens of each source begin, and the source's keys and values. Rows of one source
  /// are adjacent and share them.
  std::vector<int64_t> memory_offsets{0};
  std::vector<const PageTable*> memories;
  PageLayout layout;
  Tensor bias;  ///< of every layer's self-attention, [1, heads, tokens, longest row]; may be empty
  std::vector<TracedRows> traced;

  int64_t tokens() const { return offsets.back(); }
  int64_t longest() const;  ///< length of the longest row, new tokens included
};

/// A layer's forward pass without dropout. Writes the new keys and values into the pages. `path` is that of the layer.
Tensor paged_layer(const TransformerEncoderLayer& layer, const Tensor& x, int64_t index, PagedStep& step,
                   const std::string& path);
Tensor paged_layer(const TransformerDecoderLayer& layer, const Tensor& x, int64_t index, PagedStep& step,
                   const std::string& path);

/// A source: its length, and a table with room for its keys and values.
struct MemoryRow {
  int64_t length = 0;
  const PageTable* table = nullptr;
};
/// Writes the keys and values of the encoder's output [sources, longest, dim] into the pages of layer `index`.
void write_memory(const TransformerDecoderLayer& layer, const Tensor& memory, int64_t index,
                  std::span<const MemoryRow> rows);

/// The layout of a layer's pages with elements of `dtype`.
PageLayout page_layout(const MultiheadAttention& attention, DType dtype);

}  // namespace attend
