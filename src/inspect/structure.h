#pragma once

#include <string>
#include <vector>

#include "attend/inspect/experiment.h"

// The structure of the known models: stacks, layers, output layers.
namespace attend {

std::vector<StackPlace> stacks_of(const Model& model);

/// The layer of a model that computes the logits of words. Throws Error if the model has none.
Head head_of(const Model& model);
std::vector<std::string> labels_of(const Model& model);  ///< empty: none

/// The residual branches of a layer, in the order of the pass. `norm` comes before or after the branch.
struct BranchPlace {
  std::string name;  ///< "attention", "cross_attention" or "feed_forward"
  const Norm* norm = nullptr;
  const MultiheadAttention* attention = nullptr;  ///< null for a feed-forward network
  const FeedForward* feed_forward = nullptr;
};
struct LayerPlace {
  bool norm_first = false;
  std::vector<BranchPlace> branches;
};
/// The layers of a stack of `model`. They point into the model.
std::vector<LayerPlace> layers_of(const Model& model, const StackPlace& stack);
/// The norm after the last layer of a stack, or null.
const Norm* final_norm_of(const Model& model, const StackPlace& stack);

/// The attention module with this path. Throws ShapeError if there is none.
const MultiheadAttention& attention_at(const Model& model, const std::vector<StackPlace>& stacks,
                                       const std::string& path);

}  // namespace attend
