#include "backend/cuda/attention/hopper_forward_roles.cuh"

// The forward kernels with options that change scores or weights: one for every combination.
namespace attend::cuda {

bool forward_with_options(const AttentionProblem& problem, View y, View lse, int options) {
  const auto launch = [&](auto type) {
    using T = decltype(type);
    // Two warpgroups: random numbers need registers during products.
    if (problem.q.shape[3] == 64) return launch_forward<T, 64, 128, 2, kAnyOption>(problem, y, lse, options);
    return launch_forward<T, 128, 128, 2, kAnyOption>(problem, y, lse, options);
  };
  return problem.q.dtype == DType::bf16 ? launch(__nv_bfloat16{}) : launch(__half{});
}

}  // namespace attend::cuda
