#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

struct LossOptions {
  double label_smoothing = 0;   ///< share of the target spread evenly over all classes
  int64_t ignore_index = -100;  ///< rows with this target count for nothing
};

/// −Σ_c t_c log softmax(logits)_c, the mean over rows that are not ignored (0 if there are none): a tensor of shape [].
/// logits […, classes], target i64 of the leading shape.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, LossOptions options = {});

}  // namespace attend
