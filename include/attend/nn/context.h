#pragma once

#include <vector>

#include "attend/base/random.h"
#include "attend/ops/attention.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// What one fused attention call leaves behind, enough to ask for its weights afterwards. [batch, heads, length, dim].
struct AttentionTrace {
  Tensor q, k, lse;
  AttentionOptions options;

  /// The weights of chosen heads and rows, or the largest few: computed now, and only these.
  AttentionWeights weights(const WeightSelection& selection = {}) const;
  /// All weights, averaged over the heads: [batch, queries, keys].
  Tensor average_weights() const;
};

/// What a forward pass needs beyond its inputs. Training and randomness are arguments, not hidden state.
struct ForwardContext {
  Rng* rng = nullptr;                             ///< where dropout takes its masks from; null: no dropout
  std::vector<AttentionTrace>* traces = nullptr;  ///< every attention call appends to it, in order; null: none kept
};

/// Dropout if the context has randomness, else x.
Tensor drop(const Tensor& x, double p, const ForwardContext& context);

}  // namespace attend
