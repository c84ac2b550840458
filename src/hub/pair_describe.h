#pragma once

#include <functional>

#include "attend/models/transformer_model.h"
#include "hub/describe.h"

// Exports our encoder–decoders to the architectures derived from Fairseq's Transformer.
namespace attend::hub {

/// The settings that these share; each adds its own. Refuses settings that none of them supports.
Json pair_json(const TransformerModelConfig& config, Refusals& refusals);

/// An equivalent model whose positions have all sines before all cosines, and with a bias on the output layer.
std::unique_ptr<Model> with_wave_halves(const TransformerModel& model);
/// An equivalent model with position tables, and with a bias on the output layer.
std::unique_ptr<Model> with_position_tables(const TransformerModel& model);

}  // namespace attend::hub
