#pragma once

#include "backend/kernels.h"

// Attention in bf16 and f16 by the tensor cores of sm_80 and later, with every option. Each function returns false,
// without doing anything, if the problem is outside what it handles.
namespace attend::cuda {

bool tensor_forward(const AttentionProblem& problem, View y, View lse);
bool tensor_backward(const AttentionProblem& problem, const AttentionGradients& gradients);

}  // namespace attend::cuda
