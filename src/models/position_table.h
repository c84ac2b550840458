#pragma once

#include <optional>

#include "attend/models/settings.h"
#include "attend/models/wave_table.h"
#include "attend/nn/cache.h"
#include "attend/nn/embedding.h"
#include "attend/nn/transformer.h"

namespace attend {

/// Sets the position options of a layer's attention. Throws ShapeError for relative positions, which are not an option
/// of a layer.
void set_positions(TransformerLayerConfig& layer, Positions positions);

/// A model's position vectors for at least `length` tokens, [≥ length, dim]: learned or sinusoidal; empty if the model
/// has neither.
Tensor position_rows(const std::optional<LearnedPositions>& learned, const WaveTable& waves, int64_t length);

/// Adds rows of `table` [≥ positions, dim] to x[batch, length, dim]: the first rows, or the rows of a generation step's
/// positions. Returns x if the table is empty.
Tensor add_positions(const Tensor& x, const Tensor& table, const CacheStep* step = nullptr);

/// Adds the rows of `table` at the positions of a process's part of a sequence to x[batch, part.size(), dim]. Returns x
/// if the table is empty.
Tensor add_positions(const Tensor& x, const Tensor& table, const ContextPart& part);

/// Reports the rows of `table` that add_positions(x, table) adds to an observer, as "positions" [1, length, dim].
void show_positions(const Tensor& x, const Tensor& table, const ForwardPass& pass);

/// Throws a ShapeError that starts with `name` if `length` is larger than the context.
void check_length(const char* name, int64_t length, int64_t context);

/// Initialises matrices from N(0, deviation²) and biases with 0. With `residual_layers`, the deviation of projections
/// whose output is added to the residual stream is divided by √(2 · residual_layers) (Radford et al. 2019 §2.3).
void draw_normal(TransformerEncoder& stack, double deviation, int64_t residual_layers, Rng& rng);

}  // namespace attend
