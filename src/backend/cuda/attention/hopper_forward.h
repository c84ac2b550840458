#pragma once

#include "backend/cuda/attention/hopper_score.cuh"
#include "backend/cuda/attention/tensor.h"

// The arguments of the forward kernels on Hopper.
namespace attend::cuda {

/// Options that change scores or weights. A kernel is compiled for some of them, or for all with kAnyOption.
enum ForwardOption {
  kSoftcap = 1,
  kAlibi = 2,
  kBias = 4,
  kMask = 8,
  kDropout = 16,
  kOddScale = 32,  ///< the scale is not positive, so that the largest score is not scale · the largest q · k
  kAnyOption = 63
};

struct ForwardArguments {
  CUtensorMap q, k, v;
  CUtensorMap bias, mask;
  bool has_bias_map, has_mask_map;  ///< else copies are made without maps
  void* y;
  float* lse;
  RowStrides y_strides, lse_strides;
  BlockMarks marks;
  const int64_t *lengths, *q_offsets, *k_offsets;
  VisibilityOptions visibility;
  ScoreOptions score;
  int options;   ///< a sum of ForwardOption
  float factor;  ///< weights are 2^(factor · score)
  int heads, head_group, sequences, query_blocks, tiles;
  int section;  ///< heads (of all batch entries) whose tiles are mixed, so that their keys stay in the L2 cache
};

int forward_options(const AttentionProblem& problem);
/// The arguments that follow from the problem's shape and options, for tiles of `rows` queries.
void set_forward_arguments(ForwardArguments& args, const AttentionProblem& problem, int rows, int options);
/// The forward pass with any options, or with one of kSoftcap … kDropout alone. False if bulk copies cannot read an
/// input.
bool forward_with_options(const AttentionProblem& problem, View y, View lse, int options);
bool forward_with_option(const AttentionProblem& problem, View y, View lse, ForwardOption option);

}  // namespace attend::cuda
