#include "attend/ops/softmax.h"

#include "ops/check.h"

namespace attend {

// dx_i = y_i (dy_i − Σ_j dy_j y_j), the Jacobian diag(y) − y yᵀ applied to dy.
Tensor softmax(const Tensor& x) {
  require_float(x, "softmax");
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) >= 1, "softmax: last axis must not be empty, got shape ", x.shape());
  const Tensor y = empty_like(x);
  kernels(x.device()).softmax.forward(rows(dense(x)), rows(y));
  return record("softmax", y, {x}, [y](const Tensor& dy) -> Gradients {
    Tensor dx = empty_like(y);
    kernels(y.device()).softmax.backward(rows(dense(dy)), rows(y), rows(dx));
    return {dx};
  });
}

}  // namespace attend
