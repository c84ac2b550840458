#include "attend/nn/context.h"

#include "attend/ops/dropout.h"
#include "attend/ops/reduce.h"

namespace attend {

AttentionWeights AttentionTrace::weights(const WeightSelection& selection) const {
  return attention_weights(q, k, lse, options, selection);
}

Tensor AttentionTrace::average_weights() const { return mean(weights().values, 1); }

Tensor drop(const Tensor& x, double p, const ForwardContext& context) {
  return context.rng && p > 0 ? dropout(x, p, context.rng->stream()) : x;
}

}  // namespace attend
