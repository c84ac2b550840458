#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "attend/generate/align.h"
#include "attend/inspect/run.h"

// Statistics of attention heads.
namespace attend {

/// Statistics of one head, computed in one pass over its weights. Memory is linear in the lengths.
struct HeadSummary {
  std::vector<double> entropy;                    ///< entropy of each row's weights, in nats
  std::vector<double> row_totals, column_totals;  ///< sums of weights; a row sums to 1, or to 0 if all keys are masked
  int64_t level = 0;                              ///< a cell of the grid is the maximum over 2^level × 2^level weights
  int64_t grid_rows = 0, grid_columns = 0;        ///< at most 1,024 each; 0 if `level` is 0
  std::vector<float> grid;
};
/// The summary of a head. Computed on first use and then cached in the run, within a memory limit. Throws ShapeError if
/// the attention or the head does not exist.
std::shared_ptr<const HeadSummary> head_summary(const Run& run, int64_t attention, int64_t head);

struct HeadFigures {
  int64_t attention = 0, head = 0;
  double entropy = 0;   ///< mean entropy of the rows, in nats: 0 = one key only, ln(keys) = all keys equally
  double distance = 0;  ///< mean over rows of Σ_j w_ij |i − j|
  double peak = 0;      ///< mean over rows of the largest weight
};
/// The figures of every head. For longer texts, computed from 1,024 evenly spaced rows.
std::vector<HeadFigures> head_figures(const Run& run);

/// Attention rollout (Abnar and Zuidema 2020), [queries, keys]: the product of the self-attention matrices of a stack's
/// layers, each averaged over its heads and averaged with the identity for the residual connection. Throws ShapeError
/// if the stack does not exist or there are more than 2,048 tokens, because the result is a dense matrix.
Tensor rollout(const Run& run, std::string_view stack);

/// Whether alignment_of() is possible: the model has cross-attention, and there are at most 4,194,304 pairs of tokens
/// (2,048 × 2,048), because the weights are a dense matrix.
bool has_alignment(const Run& run);
/// The word alignment by cross-attention, as align() in attend/generate/align.h computes it. Throws Error unless
/// has_alignment().
WordAlignment alignment_of(const Run& run, const Tokenizer& tokenizer, const AlignOptions& options = {});

}  // namespace attend
