#pragma once

#include "attend/models/transformer_model.h"
#include "hub/architecture.h"

// What bart, mbart, marian and pegasus have in common: the layers of Fairseq's Transformer.
namespace attend::hub {

/// Sizes, activation and dropout.
TransformerModelConfig pair_config(const HubFolder& folder);
/// Before transformers 4, one class served all of these, and their configs said how each differs. Refuses what does not
/// fit the config that was made.
void expect_layout(const HubConfig& config, const TransformerModelConfig& made);
/// Refuses what makes an encoder–decoder something else; ignores what its classifiers need.
void expect_pair(const HubConfig& config);
/// The layers, the embedding that both sides share, and the output layer.
NameMap pair_names(const HubFolder& folder, const TransformerModel& model);

/// Refuses, by name, a folder whose first "architectures" is none of these (or none at all).
void expect_architecture(const HubFolder& folder, std::initializer_list<const char*> known);
/// Refuses a table of computed positions beyond what any model has.
void check_waves(const HubFolder& folder, const TransformerModelConfig& config);

/// The name that the files have the embedding of both sides under: it stands there once, or under several names.
std::string shared_table(const HubFolder& folder, const std::string& prefix);

}  // namespace attend::hub
