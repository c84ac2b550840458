#pragma once

#include "ops/check.h"

namespace attend {

/// Applies the function that `kind` names to each element; dx = dy · f'(x). `name` is the op's name.
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
