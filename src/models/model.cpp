#include "attend/models/model.h"

#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "attend/ops/shape.h"

namespace attend {

Tensor Head::logits(const Tensor& hidden) const { return linear(hidden, weight, bias); }

Tensor Head::loss(const Tensor& hidden, const Tensor& labels, LossOptions options) const {
  return linear_cross_entropy(reshape(hidden, {-1, hidden.dim(-1)}), weight, bias, reshape(labels, {-1}), options);
}

}  // namespace attend
