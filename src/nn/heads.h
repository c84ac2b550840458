#pragma once

#include <optional>

#include "attend/nn/norm.h"
#include "attend/ops/shape.h"

namespace attend {

/// [batch, length, heads · dim] as [batch, heads, length, dim]. With a norm, each head is normed; without, this is a
/// view.
inline Tensor split_heads(const Tensor& x, int64_t heads, const std::optional<RMSNorm>& norm = {}) {
  const Tensor apart = reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return transpose(norm ? norm->forward(apart) : apart, 1, 2);
}

/// [batch, heads, length, dim] as [batch, length, heads · dim].
inline Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, 1, 2), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

}  // namespace attend
