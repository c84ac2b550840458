#pragma once

#include "attend/models/transformer_model.h"
#include "hub/architecture.h"

// Common parts of bart, mbart, marian and pegasus: the layers of Fairseq's Transformer.
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

/// Throws FormatError unless the first of "architectures" is one of these or absent.
void expect_architecture(const HubFolder& folder, std::initializer_list<const char*> known);
/// Throws FormatError if the table of sinusoidal positions would be larger than any real model's.
void check_waves(const HubFolder& folder, const TransformerModelConfig& config);

/// The name of the embedding that both sides share; files may have it under one name or several.
std::string shared_table(const HubFolder& folder, const std::string& prefix);

}  // namespace attend::hub
