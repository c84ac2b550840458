#pragma once

#include <optional>

#include "attend/models/settings.h"
#include "attend/models/wave_table.h"
#include "attend/nn/cache.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

/// Sets what a layer's attention needs to know of positions. Throws ShapeError for relative ones, of which a layer
/// knows nothing.
void set_positions(TransformerLayerConfig& layer, Positions positions);

/// A model's vectors of positions for `length` tokens, [≥ length, dim]: learned, computed, or none.
Tensor position_rows(const std::optional<LearnedPositions>& learned, const WaveTable& waves, int64_t length);

/// x[batch, length, dim] plus rows of `table` [≥ positions, dim]: the first ones, or those of a step of generation. An
/// empty table adds nothing.
Tensor add_positions(const Tensor& x, const Tensor& table, const CacheStep* step = nullptr);

/// Throws ShapeError if `length` tokens are more than a model takes.
void check_length(const char* name, int64_t length, int64_t context);

/// Matrices from N(0, deviation²), biases 0. With `residual_layers`, what is added to the residual stream starts
/// smaller by √(2 · residual_layers) (Radford et al. 2019 §2.3).
void draw_normal(TransformerEncoder& stack, double deviation, int64_t residual_layers, Rng& rng);

}  // namespace attend
