#pragma once

#include "attend/ops/cross_entropy.h"

namespace attend {

/// cross_entropy(linear(x, weight, bias), target, options) to rounding, for many classes: the logits exist for some
/// hundred rows at a time only, and rows that are ignored are not multiplied at all. x […, dim], weight [classes, dim],
/// bias [classes] or empty, target i64 of x's leading shape. Where a gradient is needed the forward pass makes it too,
/// while the logits are at hand; backward() only scales it.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target,
                            LossOptions options = {});

}  // namespace attend
