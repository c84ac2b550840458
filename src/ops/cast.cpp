#include "attend/ops/cast.h"

#include "ops/check.h"

namespace attend {

Tensor cast(const Tensor& x, DType dtype) {
  require<ShapeError>(static_cast<bool>(x), "cast: x is empty");
  require<ShapeError>(is_floating(x.dtype()) && is_floating(dtype), "cast: expected floating-point types, got ",
                      x.dtype(), " and ", dtype);
  if (x.dtype() == dtype) return x;
  return record("cast", to(x.detach(), dtype), {x}, [](const Tensor& dy) -> Gradients { return {dy}; });
}

}  // namespace attend
