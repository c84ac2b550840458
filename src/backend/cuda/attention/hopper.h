#pragma once

#include "backend/kernels.h"

// Attention by Hopper's tensor cores (sm_90a) for head sizes 64 and 128 in bf16 and f16. Each function returns false,
// without doing anything, if the problem is outside what it handles.
namespace attend::cuda {

bool hopper_forward(const AttentionProblem& problem, View y, View lse);
bool hopper_backward(const AttentionProblem& problem, const AttentionGradients& gradients);

}  // namespace attend::cuda
