#pragma once

#include <string>

#include "hub/architecture.h"

namespace attend::hub {

/// Where a model's output matrix would be, and the embedding that may serve as one.
struct OutputNames {
  std::string head;       ///< the whole name
  std::string prefix;     ///< that the embedding's name may have
  std::string embedding;  ///< without the prefix
};

/// Whether the embedding is the output matrix, too: where the files have no other, whatever "tie_word_embeddings" says
/// (`otherwise` where it says nothing), or where it says so and the files have the same matrix twice. A matrix that is
/// in the files and differs is never passed over, as transformers 5 has it.
bool is_output_tied(const HubFolder& folder, const OutputNames& names, bool otherwise);

}  // namespace attend::hub
