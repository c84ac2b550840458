#pragma once

#include "attend/ops/attention.h"

// Sums over parts of attention, on the CPU. Tensors are [batch, heads, length, dim], f32 or f64, with dense rows.
namespace attend {

/// Adds x to `sum`.
void add_to(const Tensor& sum, const Tensor& x);

/// Merges the result of attention to some keys into that to other keys, `total`, whose lse is f64.
void merge_attention(const AttentionResult& fresh, const AttentionResult& total);

}  // namespace attend
