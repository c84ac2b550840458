#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// e^x_i / Σ_j e^x_j along the last axis.
Tensor softmax(const Tensor& x);
/// log softmax(x), computed without leaving the logarithmic scale.
Tensor log_softmax(const Tensor& x);
/// The two numbers of each row, [..., 2], that log_softmax subtracts from it one after the other: where a few of the
/// results are needed, the others need not be written. Not recorded.
Tensor log_softmax_terms(const Tensor& x);

}  // namespace attend
