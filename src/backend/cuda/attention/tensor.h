#pragma once

#include "backend/cuda/attention/marks.h"
#include "backend/kernels.h"

// Attention in bf16 and f16 by the tensor cores of sm_80 and later, with every option. Each function returns false,
// without doing anything, if the problem is outside what it handles. With marks, it computes only the marked blocks.
namespace attend::cuda {

/// Rows of the marked blocks of queries, and of those of the gradients, for head sizes up to 128.
inline constexpr int kForwardMarkRows = 128, kBackwardMarkRows = 64;
struct GradientMarks {
  BlockMarks queries, keys;
};

bool tensor_forward(const AttentionProblem& problem, View y, View lse, const BlockMarks& marks = {});
bool tensor_backward(const AttentionProblem& problem, const AttentionGradients& gradients,
                     const GradientMarks& marks = {});

}  // namespace attend::cuda
