#include "attend/nn/context.h"

#include "attend/ops/dropout.h"

namespace attend {

Tensor drop(const Tensor& x, double p, const ForwardContext& context) {
  return context.rng && p > 0 ? dropout(x, p, context.rng->stream()) : x;
}

}  // namespace attend
