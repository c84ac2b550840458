#pragma once

#include <span>
#include <vector>

#include "attend/io/json.h"
#include "generate/engine.h"
#include "serve/answer_shape.h"
#include "serve/generation_settings.h"

namespace attend {

/// Where a generated token looked: for each chosen attention module and head, the largest weights and the positions
/// that they belong to.
Json look_json(const SequenceStep& step, int64_t row, const LookSettings& settings);

/// The attention modules that generate tokens.
struct AttentionSize {
  int64_t layers = 0, heads = 0;  ///< 0: the model has no attention
};
AttentionSize attention_size(const Model& model);

/// Where the tokens of a search's hypotheses looked.
class HypothesisLooks {
 public:
  explicit HypothesisLooks(LookSettings settings) : settings_(std::move(settings)) {}

  /// Adds a step of the search.
  void add(const SequenceStep& step);
  /// The tokens of a finished hypothesis.
  std::vector<TokenRecord> tokens_of(std::span<const int32_t> ids) const;

 private:
  struct Node {
    int64_t parent = 0;  // index in nodes_ of the token before it; -1: none
    int32_t id = 0;
    Json look;
  };
  LookSettings settings_;
  std::vector<Node> nodes_;
  std::vector<int64_t> node_of_row_;
};

/// Number of the layer in the path of an attention module; 0 if the path has none.
int64_t layer_of(const std::string& path);

}  // namespace attend
