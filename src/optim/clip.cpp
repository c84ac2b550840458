#include "attend/optim/clip.h"

#include <cmath>

#include "backend/kernels.h"
#include "optim/state.h"

namespace attend {

Tensor squared_grad_norm(const std::vector<NamedTensor>& parameters) {
  std::vector<Tensor> kept;
  std::vector<ConstRows> parts;
  for (const auto& [name, tensor] : without_repeats(parameters)) {
    const Tensor gradient = grad(tensor);
    if (!gradient) continue;
    kept.push_back(gradient);
    parts.emplace_back(rows(gradient));
    require<DeviceError>(gradient.device() == kept[0].device(), "squared_grad_norm: ", name, " is on ",
                         gradient.device(), " but other parameters are on ", kept[0].device());
  }
  const Device device = kept.empty() ? kCpu : kept[0].device();
  const Tensor total = empty({}, {DType::f64, device});
  kernels(device).reduce.sum_of_squares(parts, rows(total));
  return total;
}

double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm) {
  require<ShapeError>(max_norm > 0, "clip_grad_norm: max_norm must be positive, got ", max_norm);
  const double norm = std::sqrt(squared_grad_norm(parameters).item());
  const double factor = max_norm / (norm + 1e-6);  // PyTorch's guard against a norm of 0
  if (factor < 1) {
    for (const auto& [name, tensor] : without_repeats(parameters)) {
      if (const Tensor g = grad(tensor)) kernels(g.device()).elementwise.affine(g.view(), factor, 0, g.view());
    }
  }
  return norm;
}

}  // namespace attend
