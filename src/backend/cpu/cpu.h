#pragma once

#include "backend/kernels.h"

// The CPU's kernels: what each does is said in backend/kernels.h.
namespace attend::cpu {

const Kernels& table();

void copy(ConstView x, View y);
void fill(View y, double value);
void affine(ConstView x, double scale, double shift, View y);
void accumulate(ConstView x, View y);
void binary(BinaryKind kind, ConstView a, ConstView b, View y);

void softmax(ConstRows x, Rows y);

void attention_forward(const AttentionProblem& problem, View y, View lse);
void attention_backward(const AttentionProblem& problem, const AttentionGradients& gradients);

}  // namespace attend::cpu
