#include "attend/optim/clip.h"

#include <cmath>

#include "backend/kernels.h"
#include "optim/state.h"

namespace attend {

double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm) {
  require<ShapeError>(max_norm > 0, "clip_grad_norm: max_norm must be positive, got ", max_norm);
  std::vector<Tensor> gradients;
  double squares = 0;
  for (const auto& [name, tensor] : without_repeats(parameters)) {
    if (const Tensor gradient = grad(tensor)) {
      gradients.push_back(gradient);
      squares += kernels(gradient.device()).reduce.sum_of_squares(rows(gradient));
    }
  }
  const double norm = std::sqrt(squares);
  const double factor = max_norm / (norm + 1e-6);  // PyTorch's guard against a norm of 0
  if (factor < 1) {
    for (const Tensor& g : gradients) kernels(g.device()).elementwise.affine(g.view(), factor, 0, g.view());
  }
  return norm;
}

}  // namespace attend
