#pragma once

#include "backend/kernels.h"

// Packed bf16 weights for products whose rows are rounded to bf16, too. A panel holds the weights of kBf16Block outputs
// in the order of Bf16Block::b, with the inputs padded to a multiple of kBf16Block.
namespace attend::cpu {

/// Whether these weights are packed in this layout for products with bf16: a unit multiplies it, and the product is not
/// too small for it.
bool has_bf16_panels(const ConstRows& weights);
/// Whether the panels of this matrix have this layout.
bool are_bf16_panels(const WeightMatrix& weight);
/// Writes the panels if `to` is not null. Returns their size in bytes.
size_t pack_bf16_panels(const ConstRows& weights, void* to);

/// The products of rows rounded to bf16. Gives the bits of multiply_bf16(). Returns false, without computing anything,
/// if a product has no such panels, or if so few rows are faster with the weights in place.
bool multiply_bf16_panels(ConstRows x, std::span<const WeightProduct> products);

}  // namespace attend::cpu
