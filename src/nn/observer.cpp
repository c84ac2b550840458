#include "attend/nn/observer.h"

#include "attend/ops/reduce.h"

namespace attend {

AttentionWeights AttentionTrace::weights(const WeightSelection& selection) const {
  return attention_weights(q, k, lse, options, selection);
}

Tensor AttentionTrace::average_weights() const { return mean(weights().values, 1); }

void ObservedPart::enter(std::string_view name) {
  length_ = observer_->path_.size();
  if (length_ > 0) observer_->path_ += '.';
  observer_->path_ += name;
}

}  // namespace attend
