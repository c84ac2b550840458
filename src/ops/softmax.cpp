#include "attend/ops/softmax.h"

#include "ops/check.h"

namespace attend {
namespace {

using RowForward = Kernel<void(ConstRows x, Rows y)>;
using RowBackward = Kernel<void(ConstRows dy, ConstRows y, Rows dx)>;

/// Applies a function to each row. The gradient needs only the result, not x.
Tensor of_rows(const char* name, const Tensor& x, const RowForward& forward, const RowBackward& backward) {
  const Tensor y = empty_like(x);
  forward(rows(dense(x)), rows(y));
  return record(name, y, {x}, [y, backward](const Tensor& dy) -> Gradients {
    const Tensor dx = empty_like(y);
    backward(rows(dense(dy)), rows(y), rows(dx));
    return {dx};
  });
}

const SoftmaxKernels& checked(const char* name, const Tensor& x) {
  require_float(x, name);
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) >= 1, name, ": last axis must not be empty, got shape ", x.shape());
  return kernels(x.device()).softmax;
}

}  // namespace

// dx_i = y_i (dy_i − Σ_j dy_j y_j), the Jacobian diag(y) − y yᵀ applied to dy.
Tensor softmax(const Tensor& x) {
  const SoftmaxKernels& table = checked("softmax", x);
  return of_rows("softmax", x, table.forward, table.backward);
}

// dx_i = dy_i − e^y_i Σ_j dy_j.
Tensor log_softmax(const Tensor& x) {
  const SoftmaxKernels& table = checked("log_softmax", x);
  return of_rows("log_softmax", x, table.log_forward, table.log_backward);
}

Tensor log_softmax_terms(const Tensor& x) {
  const SoftmaxKernels& table = checked("log_softmax_terms", x);
  Shape shape = x.shape();
  shape[x.rank() - 1] = 2;
  const Tensor terms = empty(shape, {sum_dtype(x.dtype()), x.device()});
  table.log_terms(rows(dense(x)), rows(terms));
  return terms;
}

}  // namespace attend
