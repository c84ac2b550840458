#pragma once

#include <vector>

#include "attend/inspect/run.h"

namespace attend {

/// The input of one head's softmax, [rows, keys]: scaled, capped and biased scores; −∞ for masked keys.
std::vector<float> scores_of(const RunAttention& attention, int64_t head, RowRange rows);

/// Bahdanau's scores of one row, [keys]. Uses the same ops as the forward pass, so that the bits are the same.
Tensor additive_scores(const RunAttention& attention, int64_t row);

/// One head of [1, heads, length, dim] as [length, dim]. `head` counts query heads, also if `x` has fewer (shared) key
/// heads.
Tensor head_rows(const Tensor& x, int64_t head, int64_t heads);

}  // namespace attend
