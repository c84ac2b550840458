#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// Sum or mean of all elements: a tensor of shape [].
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
/// Along one axis, which is dropped, or kept with size 1.
Tensor sum(const Tensor& x, int64_t axis, bool keep_axis = false);
Tensor mean(const Tensor& x, int64_t axis, bool keep_axis = false);

}  // namespace attend
