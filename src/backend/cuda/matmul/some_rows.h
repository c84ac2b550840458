#pragma once

#include <span>

#include "backend/kernels.h"

// Products of rows of x, rounded to bf16, with bf16 weights on tensor cores. For up to kSomeRows rows, cuBLASLt's tiles
// are too large; here the floor is the time to read the weights once. Any number of rows gives a row the same bits.
namespace attend::cuda {

inline constexpr int64_t kSomeRows = 128;  ///< from here on cuBLASLt is faster

/// Whether the addresses and the length of the rows allow it.
bool can_multiply_some(ConstRows x, std::span<const WeightProduct> products);

/// y = round(x) · weightᵀ + bias and what follows, for all products in one launch. x is f32, or bf16 in rows whose
/// addresses are multiples of 16 bytes; y is f32 or bf16. x is normed before it is rounded if
/// `norm` is not null. The order of each sum depends only on the length of a row of weights. `early`: see
/// WeightProductOptions.
void multiply_some(ConstRows x, std::span<const WeightProduct> products, const RowNorm* norm, bool early);

}  // namespace attend::cuda
