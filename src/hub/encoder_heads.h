#pragma once

#include <string>

#include "attend/models/encoder.h"
#include "hub/architecture.h"

// What the encoders have in common: bert, distilbert, roberta.
namespace attend::hub {

/// Whether the files have this tensor, with the prefix or without it.
bool has_tensor(const HubFolder& folder, const std::string& prefix, const std::string& name);

/// Adds a rule for theirs.weight and theirs.bias that never have the map's prefix.
void add_bare(NameMap& map, const std::string& theirs, const std::string& ours);
void add_bare_tensor(NameMap& map, const std::string& theirs, const std::string& ours);

/// What the classes are called: from id2label, or by their number in `weight`, the classifier's matrix. Empty where
/// there is none.
std::vector<std::string> class_labels(const HubFolder& folder, const std::string& weight);
/// The same where the model classifies texts, else none.
std::vector<std::string> text_labels(const HubFolder& folder, const std::string& weight);
/// What that many labels' numbers mean: shares, unless the config says otherwise or there is one label.
LabelScores label_scores(const HubFolder& folder, size_t labels);

/// Refuses what makes an encoder a decoder.
void expect_encoder(const HubConfig& config);

/// BERT's oldest files call a norm's weight gamma and its bias beta.
void add_norm(NameMap& map, const HubFolder& folder, const std::string& theirs, const std::string& ours);

}  // namespace attend::hub
