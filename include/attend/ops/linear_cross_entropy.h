#pragma once

#include "attend/ops/cross_entropy.h"

namespace attend {

/// cross_entropy(linear(x, weight, bias), target, options), equal up to rounding, for many classes. Holds the logits of
/// at most 512 rows at a time, and does not multiply ignored rows. x […, dim], weight [classes, dim], bias [classes] or
/// empty, target i64 with x's leading shape. If a gradient is needed, the forward pass also computes the gradient, and
/// backward() only scales it.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target,
                            LossOptions options = {});

}  // namespace attend
