#include "attend/nn/weight_formats.h"

namespace attend {

void set_weight_format(const std::vector<Tensor*>& matrices, WeightFormat format) {
  if (format == WeightFormat::f32) return;
  std::map<const Storage*, std::vector<Tensor*>> shared;  // a tied matrix is converted once
  for (Tensor* matrix : matrices) shared[matrix->storage().get()].push_back(matrix);
  for (const auto& [storage, handles] : shared) {
    for (size_t i = 0; i < handles.size(); ++i) {
      const bool is_same = i > 0 && handles[i]->shape() == handles[0]->shape();
      const Tensor converted = is_same ? *handles[0] : in_format(*handles[i], format);
      *handles[i] = converted.detach();
    }
  }
}

}  // namespace attend
