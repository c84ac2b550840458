#pragma once

#include "ops/check.h"

namespace attend {

/// f(x) element by element for the function that `kind` names; dx = dy · f'(x). `name` is the op's own.
inline Tensor unary(UnaryKind kind, const char* name, const Tensor& x) {
  require_float(x, name);
  const Tensor in = dense(x), y = empty_like(x);
  kernels(x.device()).elementwise.unary(kind, rows(in), rows(y));
  return record(name, y, {x}, [kind, in](const Tensor& dy) -> Gradients {
    const Tensor dx = empty_like(in);
    kernels(in.device()).elementwise.unary_backward(kind, rows(dense(dy)), rows(in), rows(dx));
    return {dx};
  });
}

}  // namespace attend
