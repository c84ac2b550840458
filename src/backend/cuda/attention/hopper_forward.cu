#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_forward_roles.cuh"

// The forward pass on Hopper, after FlashAttention-3 (Shah et al. 2024). A producer warp copies tiles of q, k and v
// into shared memory; each consumer warpgroup owns 64 queries. While one warpgroup computes its softmax, the tensor
// cores work for another, and within a warpgroup the scores of the next block of keys are computed during the softmax
// of this one. A warpgroup skips the blocks of keys that only the others see. CTAs stay and take tiles of queries from
// a counter, longest first.
//
// A hidden key has weight 0, and 0 · NaN would leak. Blocks with an output that is not finite are marked for a kernel
// that skips hidden keys.
namespace attend::cuda {

int forward_options(const AttentionProblem& problem) {
  return (problem.softcap > 0 ? kSoftcap : 0) | (problem.alibi ? kAlibi : 0) | (problem.bias ? kBias : 0) |
         (problem.mask ? kMask : 0) | (problem.dropout > 0 ? kDropout : 0) | (problem.scale > 0 ? 0 : kOddScale);
}

void set_forward_arguments(ForwardArguments& args, const AttentionProblem& problem, int rows, int options) {
  const int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], group = heads / problem.k.shape[1];
  args.lengths = static_cast<const int64_t*>(problem.lengths.data);
  args.q_offsets = static_cast<const int64_t*>(problem.q_offsets.data);
  args.k_offsets = static_cast<const int64_t*>(problem.k_offsets.data);
  args.sequences = problem.q_offsets ? static_cast<int>(problem.q_offsets.shape[0] - 1) : 0;
  args.visibility = visibility_options(problem);
  args.score = score_options(problem);
  args.options = options;
  const bool scaled = (options & (kSoftcap | kAlibi | kBias | kOddScale)) != 0;
  args.factor = scaled ? kLog2E : static_cast<float>(problem.scale * double{kLog2E});
  args.heads = static_cast<int>(heads);
  args.head_group = static_cast<int>(group);
  args.query_blocks = problem.q_offsets ? packed_blocks(args.visibility.queries, args.sequences, rows)
                                        : (args.visibility.queries + rows - 1) / rows;
  args.tiles = static_cast<int>(args.query_blocks * heads * batch);
  constexpr int64_t kCacheBytes = int64_t{32} << 20;
  const int64_t fitting = kCacheBytes / (problem.k.shape[2] * problem.k.shape[3] * 4) * group;
  args.section = static_cast<int>(std::clamp<int64_t>(fitting, group, heads * batch));
}

bool hopper_forward(const AttentionProblem& problem, View y, View lse) {
  if (!is_for_hopper(problem) || lse.dtype != DType::f32) return false;
  const bool aligned = reinterpret_cast<uintptr_t>(y.data) % 16 == 0 && y.strides[0] % 8 == 0 &&
                       y.strides[1] % 8 == 0 && y.strides[2] % 8 == 0 && y.strides[3] == 1;
  if (!aligned || y.shape.numel() == 0 || problem.k.shape[2] == 0) return false;
  if (const int options = forward_options(problem); options != 0) {
    const bool is_alone = (options & (options - 1)) == 0 && options != kOddScale;
    return is_alone ? forward_with_option(problem, y, lse, static_cast<ForwardOption>(options))
                    : forward_with_options(problem, y, lse, options);
  }
  const auto launch = [&](auto type) {
    using T = decltype(type);
    if (problem.q.shape[3] == 64) return launch_forward<T, 64, 128, 3, 0>(problem, y, lse, 0);
    if (problem.causal || problem.window > 0) return launch_forward<T, 128, 128, 2, 0>(problem, y, lse, 0);
    return launch_forward<T, 128, 176, 2, 0>(problem, y, lse, 0);
  };
  return problem.q.dtype == DType::bf16 ? launch(__nv_bfloat16{}) : launch(__half{});
}

}  // namespace attend::cuda
