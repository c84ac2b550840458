#include "backend/cuda/attention/hopper_forward_roles.cuh"

// The forward kernels for one option that changes scores or weights.
namespace attend::cuda {

bool forward_with_option(const AttentionProblem& problem, View y, View lse, ForwardOption option) {
  const auto launch_option = [&](auto type, auto chosen) {
    using T = decltype(type);
    constexpr int kOption = decltype(chosen)::value;
    // Softcap and dropout need more registers during products.
    constexpr int kGroups = kOption == kSoftcap || kOption == kDropout ? 2 : 3;
    if (problem.q.shape[3] == 64) return launch_forward<T, 64, 128, kGroups, kOption>(problem, y, lse, kOption);
    return launch_forward<T, 128, 128, 2, kOption>(problem, y, lse, kOption);
  };
  const auto launch = [&](auto type) {
    using std::integral_constant;
    switch (option) {
      case kSoftcap:
        return launch_option(type, integral_constant<int, kSoftcap>{});
      case kAlibi:
        return launch_option(type, integral_constant<int, kAlibi>{});
      case kBias:
        return launch_option(type, integral_constant<int, kBias>{});
      case kMask:
        return launch_option(type, integral_constant<int, kMask>{});
      default:
        return launch_option(type, integral_constant<int, kDropout>{});
    }
  };
  return problem.q.dtype == DType::bf16 ? launch(__nv_bfloat16{}) : launch(__half{});
}

}  // namespace attend::cuda
