#include "attend/models/model.h"

#include "attend/ops/activation.h"
#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"

namespace attend {

std::vector<Tensor*> Model::matrices() {
  throw Error("architecture " + architecture() + " does not support bf16 or int8 weights");
}

void set_weight_format(Model& model, WeightFormat format) {
  if (format != WeightFormat::f32) set_weight_format(model.matrices(), format);
}

Tensor Head::logits(const Tensor& hidden) const { return linear(hidden, weight, bias); }

Tensor Head::loss(const Tensor& hidden, const Tensor& labels, LossOptions options) const {
  return linear_cross_entropy(reshape(hidden, {-1, hidden.dim(-1)}), weight, bias, reshape(labels, {-1}), options);
}

Tensor score_labels(const Tensor& numbers, LabelScores scores) {
  if (scores == LabelScores::values) return numbers;
  return scores == LabelScores::each ? sigmoid(numbers) : softmax(numbers);
}

}  // namespace attend
