#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// alibi_slopes() in the dtype and on the device of q, computed once.
Tensor slopes_of(int64_t heads, const Tensor& q);

}  // namespace attend
