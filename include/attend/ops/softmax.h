#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// e^x_i / Σ_j e^x_j along the last axis.
Tensor softmax(const Tensor& x);
/// log softmax(x) along the last axis, computed as x − max(x) − log Σ_j e^(x_j − max(x)).
Tensor log_softmax(const Tensor& x);
/// The two numbers of each row, […, 2], that log_softmax subtracts from it one after the other. With them, a caller
/// that needs only a few log-probabilities of a row can compute only those. Not recorded.
Tensor log_softmax_terms(const Tensor& x);

}  // namespace attend
