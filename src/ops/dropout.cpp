#include "attend/ops/dropout.h"

#include "ops/check.h"

namespace attend {

// Dropout is linear in x for a fixed mask, so its gradient is the op itself applied to dy.
Tensor dropout(const Tensor& x, double p, RandomStream stream) {
  require_float(x, "dropout");
  require<ShapeError>(p >= 0 && p <= 1, "dropout: p must be in [0, 1], got ", p);
  if (p == 0) return x;
  const Tensor y = empty_like(x);
  kernels(x.device()).random.dropout(stream, p, rows(dense(x)), rows(y));
  return record("dropout", y, {x}, [p, stream](const Tensor& dy) -> Gradients { return {dropout(dy, p, stream)}; });
}

}  // namespace attend
