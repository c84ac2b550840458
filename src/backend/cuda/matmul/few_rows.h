#pragma once

#include <span>

#include "backend/kernels.h"

// Products of a few rows of x with weights in place: dot products, limited by the time to read the weights once.
namespace attend::cuda {

/// Up to this many rows of x, dot products are faster than cuBLASLt.
inline constexpr int64_t kFewRows = 8;
inline constexpr int kLongRow = 2048;  ///< from this length on a team is a whole block
inline constexpr int kLongTeam = 128;  ///< its threads
inline constexpr int kSumGroup = 8;    ///< members whose sums are added first

/// y = x · weightᵀ + bias with f32 or bf16 weights, all of one type. Works with any number of rows. The order of each
/// sum depends only on the length of a row of weights, and is the same for f32 and bf16. `early`: see
/// WeightProductOptions.
void multiply_few(ConstRows x, std::span<const WeightProduct> products, bool early = false);

/// The same with a norm of x in the same kernel. Whether it can is a matter of addresses and of the row's length.
bool can_norm_few(ConstRows x, std::span<const WeightProduct> products, const RowNorm& norm);
void multiply_few(ConstRows x, std::span<const WeightProduct> products, const RowNorm& norm, bool early);

/// multiply_few() of f32 or bf16 weights for more than kFewRows rows, with the same bits; only if can_multiply_exact().
bool can_multiply_exact(ConstRows x, std::span<const WeightProduct> products);
void multiply_exact_rows(ConstRows x, std::span<const WeightProduct> products);
/// y = the norm of x, with the bits that multiply_few() computes inside; only if can_norm_few().
void norm_few(ConstRows x, const RowNorm& norm, Rows y);

/// Rows of x rounded to 8 bits, as rows of weights are, padded with zeros to a multiple of 16 values.
struct QuantizedRows {
  const int8_t* values = nullptr;  ///< 16-byte aligned
  const float* factors = nullptr;  ///< one per row
  int64_t rows = 0, cols = 0, stride = 0;
};

/// The same with i8 weights. The sums are exact.
void multiply_few(const QuantizedRows& x, std::span<const WeightProduct> products, bool early = false);

}  // namespace attend::cuda
