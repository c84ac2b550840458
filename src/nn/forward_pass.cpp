#include "attend/nn/forward_pass.h"

#include "attend/autograd/autograd.h"
#include "attend/ops/dropout.h"

namespace attend {

Tensor ForwardPass::shown(std::string_view what, const Tensor& value) const {
  Tensor result = observer->replacement(what, value);
  if (!result) result = value;
  require<ShapeError>(result.shape() == value.shape() && result.dtype() == value.dtype(),
                      "observer: ", observer->path(), ":", what, " is ", value.dtype(), " ", value.shape(),
                      ", but its replacement is ", result.dtype(), " ", result.shape());
  observer->computed(what, result);
  return result;
}

Tensor recomputed_layer(const ForwardPass& pass, const std::function<Tensor(const ForwardPass&)>& layer) {
  const Rng random = pass.rng ? *pass.rng : Rng{};
  ForwardPass again = pass;
  again.observer = nullptr;
  again.recompute = false;
  // Recorded like any other layer, because ops choose other kernels when nothing is recorded; detach() drops the
  // record.
  const Tensor y = layer(pass).detach();
  return recomputed(y, [layer, again, random = random]() mutable {
    if (again.rng) again.rng = &random;
    return layer(again);
  });
}

Tensor drop(const Tensor& x, double p, const ForwardPass& pass) {
  return pass.rng && p > 0 ? dropout(x, p, pass.rng->stream()) : x;
}

}  // namespace attend
