#pragma once

#include <vector>

#include "attend/inspect/run.h"

namespace attend {

/// What goes into the softmax of one head, [rows, keys]: scaled, capped, biased; −∞ where a query may not look.
std::vector<float> scores_of(const RunAttention& attention, int64_t head, RowRange rows);

/// Bahdanau's scores of one row, [keys], by the very steps of the pass: the same bits.
Tensor additive_scores(const RunAttention& attention, int64_t row);

/// One head of [1, heads, length, dim] as [length, dim]; `head` is a query head where key heads are shared.
Tensor head_rows(const Tensor& x, int64_t head, int64_t heads);

}  // namespace attend
