#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

struct LossOptions {
  double label_smoothing = 0;   ///< fraction of the target probability spread evenly over all classes, 0 … 1
  int64_t ignore_index = -100;  ///< rows with this target are ignored
};

/// −Σ_c t_c log softmax(logits)_c, averaged over the rows that are not ignored: a tensor of shape []. The result is 0
/// if every row is ignored. logits […, classes]; target is i64 and has the leading shape of logits. Throws ShapeError
/// if a target is neither a class nor ignore_index.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, LossOptions options = {});

}  // namespace attend
