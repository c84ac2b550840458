#include "backend/cuda/attention/hopper_common.h"

namespace attend::cuda {

std::optional<CUtensorMap> tile_map(const ConstView& view, int rows) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found == cudaDriverEntryPointSuccess ? function
                                                                                                    : nullptr);
  }();
  if (encode == nullptr || view.strides[3] != 1) return std::nullopt;
  const auto size = [&](int axis) { return static_cast<cuuint64_t>(view.shape[axis]); };
  // The stride of an axis of one element is never used, but must be valid.
  const auto bytes = [&](int axis) {
    return static_cast<cuuint64_t>(view.shape[axis] == 1 ? 128 : 2 * view.strides[axis]);
  };
  const cuuint64_t sizes[5] = {64, size(2), size(3) / 64, size(1), size(0)};
  const cuuint64_t strides[4] = {bytes(2), 128, bytes(1), bytes(0)};
  for (const cuuint64_t stride : strides) {
    if (stride % 16 != 0) return std::nullopt;
  }
  const cuuint32_t box[5] = {64, static_cast<cuuint32_t>(rows), static_cast<cuuint32_t>(size(3) / 64), 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, view.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5,
             const_cast<void*>(view.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return std::nullopt;
  return map;
}

bool is_for_hopper(const AttentionProblem& problem) {
  if (architecture() != 90) return false;
  const DType dtype = problem.q.dtype;
  const int64_t dim = problem.q.shape[3];
  if ((dtype != DType::bf16 && dtype != DType::f16) || (dim != 64 && dim != 128) || problem.v.shape[3] != dim)
    return false;
  if (problem.mask || problem.bias || problem.q_offsets || problem.alibi) return false;
  if (problem.softcap > 0 || problem.dropout > 0 || !(problem.scale > 0)) return false;
  constexpr int64_t kLimit = int64_t{1} << 29;  // positions and tile numbers are 32-bit
  return problem.q.shape[2] < kLimit && problem.k.shape[2] < kLimit &&
         problem.q.shape[0] * problem.q.shape[1] * (problem.q.shape[2] / 64 + 1) < kLimit;
}

VisibilityOptions visibility_options(const AttentionProblem& problem) {
  return {.queries = static_cast<int>(problem.q.shape[2]),
          .keys = static_cast<int>(problem.k.shape[2]),
          .causal = problem.causal,
          .bottom_right = problem.bottom_right,
          .window = static_cast<int>(std::min<int64_t>(problem.window, int64_t{1} << 29))};
}

}  // namespace attend::cuda
