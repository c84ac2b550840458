#pragma once

#include <string>

#include "attend/models/encoder.h"
#include "hub/architecture.h"

// Common parts of the encoders: bert, distilbert, roberta.
namespace attend::hub {

/// Whether the files have this tensor, with or without the prefix.
bool has_tensor(const HubFolder& folder, const std::string& prefix, const std::string& name);

/// Adds rules for theirs.weight and theirs.bias, which never have the map's prefix.
void add_bare(NameMap& map, const std::string& theirs, const std::string& ours);
void add_bare_tensor(NameMap& map, const std::string& theirs, const std::string& ours);

/// The names of the classes: from id2label, or LABEL_0, … for the rows of `weight`, the classifier's matrix. Empty
/// without that matrix.
std::vector<std::string> class_labels(const HubFolder& folder, const std::string& weight);
/// The same if the model classifies texts, otherwise empty.
std::vector<std::string> text_labels(const HubFolder& folder, const std::string& weight);
/// The meaning of the scores of `labels` labels: shares, unless the config specifies another or there is one label.
LabelScores label_scores(const HubFolder& folder, size_t labels);

/// Rejects settings that make an encoder a decoder.
void expect_encoder(const HubConfig& config);

/// Adds rules for a norm, whose weight and bias are called gamma and beta in the oldest BERT files.
void add_norm(NameMap& map, const HubFolder& folder, const std::string& theirs, const std::string& ours);

}  // namespace attend::hub
