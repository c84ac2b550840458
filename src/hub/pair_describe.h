#pragma once

#include <functional>

#include "attend/models/transformer_model.h"
#include "hub/describe.h"

// Our encoder–decoders as the descendants of Fairseq's Transformer write them.
namespace attend::hub {

/// What these share; each adds its own. Refuses what none of them has.
Json pair_json(const TransformerModelConfig& config, Refusals& refusals);

/// A model that gives the same with its waves as all sines, then all cosines, and with a bias on the output layer.
std::unique_ptr<Model> with_wave_halves(const TransformerModel& model);
/// A model that gives the same with tables of positions, and with a bias on the output layer.
std::unique_ptr<Model> with_position_tables(const TransformerModel& model);

}  // namespace attend::hub
