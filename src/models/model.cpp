#include "attend/models/model.h"

#include <map>

#include "attend/ops/activation.h"
#include "attend/ops/linear.h"
#include "attend/ops/linear_cross_entropy.h"
#include "attend/ops/shape.h"
#include "attend/ops/softmax.h"

namespace attend {

std::vector<Tensor*> Model::matrices() {
  throw Error("architecture " + architecture() + " does not support bf16 or int8 weights");
}

void Model::to(Device device) {
  // Parameters that share a matrix, such as a tied embedding, must share it afterwards too.
  std::map<std::pair<const Storage*, int64_t>, Tensor> moved;
  visit_parameters([&](const std::string&, Tensor& parameter) {
    Tensor& copy = moved[{parameter.storage().get(), parameter.offset()}];
    if (!copy || copy.shape() != parameter.shape()) copy = moved_parameter(parameter, device);
    parameter = copy;
  });
}

Device Model::device() const {
  const std::vector<NamedTensor> all = parameters();
  return all.empty() ? kCpu : all[0].second.device();
}

void set_weight_format(Model& model, WeightFormat format) {
  if (format != WeightFormat::f32) set_weight_format(model.matrices(), format);
}

void pack_matrices(Model& model) {
  const ModelKind kind = model.kind();
  if (kind != ModelKind::translation && kind != ModelKind::language) return;
  for (const Tensor* matrix : model.matrices()) pack_matrix(*matrix);
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
