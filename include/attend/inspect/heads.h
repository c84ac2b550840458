#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "attend/generate/align.h"
#include "attend/inspect/run.h"

// Figures that say what a head does.
namespace attend {

/// One head as a whole, from one pass over its weights; memory is linear in the lengths.
struct HeadSummary {
  std::vector<double> entropy;                    ///< of each row's weights, in nats
  std::vector<double> row_totals, column_totals;  ///< a row's is 1, or 0 where it may look at nothing
  int64_t level = 0;                              ///< a cell of the grid is the maximum over 2^level × 2^level weights
  int64_t grid_rows = 0, grid_columns = 0;        ///< at most 1,024 each; none where level is 0
  std::vector<float> grid;
};
/// Computed when first asked for, then kept with the run while there is room. Throws ShapeError for what is not there.
std::shared_ptr<const HeadSummary> head_summary(const Run& run, int64_t attention, int64_t head);

struct HeadFigures {
  int64_t attention = 0, head = 0;
  double entropy = 0;   ///< mean over rows, in nats: 0 looks at one key only, ln(keys) at all alike
  double distance = 0;  ///< mean over rows of Σ_j w_ij |i − j|
  double peak = 0;      ///< mean over rows of the largest weight
};
/// Of every head, over all rows or, of a longer text, 1,024 rows spread evenly.
std::vector<HeadFigures> head_figures(const Run& run);

/// Attention rollout (Abnar and Zuidema 2020): the self-attention of a stack's layers, averaged over heads, with the
/// residual connection counted as half, multiplied through. [queries, keys]. Throws ShapeError for a stack that is not
/// there or for more than 2,048 tokens: it is a matrix of all pairs.
Tensor rollout(const Run& run, std::string_view stack);

/// Where the words of the target looked, from the attention of a pair model to its source, as align() in
/// attend/generate/align.h has it. Throws Error for a model without, and for more than 4,194,304 pairs of tokens, as
/// 2,048 × 2,048: it is a matrix of all.
bool has_alignment(const Run& run);  ///< whether it would not throw
WordAlignment alignment_of(const Run& run, const Tokenizer& tokenizer, const AlignOptions& options = {});

}  // namespace attend
