#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// Sum or mean of all elements: a tensor of shape [].
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
/// Sum or mean along one axis. The axis is removed, or kept with size 1 if `keep_axis`.
Tensor sum(const Tensor& x, int64_t axis, bool keep_axis = false);
Tensor mean(const Tensor& x, int64_t axis, bool keep_axis = false);

}  // namespace attend
