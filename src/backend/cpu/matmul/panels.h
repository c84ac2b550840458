#pragma once

#include "backend/kernels.h"

// Weights that are packed once, when a model is loaded: products with some rows then read them in the order in which
// the register tile uses them. A panel holds the weights of as many outputs as a tile is wide, [in][width], in f32 or
// bf16.
namespace attend::cpu {

/// Whether a product of this many rows is faster with packed weights. Fewer rows read the weights in place as fast, and
/// many rows amortise packing.
bool uses_panels(int64_t rows);

/// multiply_formats() for f32 or bf16 weights that all have panels. Gives the same bits as without panels.
void multiply_panels(ConstRows x, std::span<const WeightProduct> products);

}  // namespace attend::cpu
