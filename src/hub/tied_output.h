#pragma once

#include <string>

#include "hub/architecture.h"

namespace attend::hub {

/// The names of a model's output matrix, and of the embedding that may replace it.
struct OutputNames {
  std::string head;       ///< the full name
  std::string prefix;     ///< optional prefix of the embedding's name
  std::string embedding;  ///< without the prefix
};

/// Whether the embedding is also the output matrix: if the files have no output matrix, or if "tie_word_embeddings"
/// (default: `otherwise`) is true and the output matrix equals the embedding. An output matrix that differs is always
/// used, as in transformers 5.
bool is_output_tied(const HubFolder& folder, const OutputNames& names, bool otherwise);

}  // namespace attend::hub
