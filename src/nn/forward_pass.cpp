#include "attend/nn/forward_pass.h"

#include "attend/ops/dropout.h"

namespace attend {

Tensor drop(const Tensor& x, double p, const ForwardPass& pass) {
  return pass.rng && p > 0 ? dropout(x, p, pass.rng->stream()) : x;
}

}  // namespace attend
