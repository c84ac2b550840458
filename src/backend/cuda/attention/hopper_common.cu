#include "backend/cuda/attention/hopper_score.cuh"

namespace attend::cuda {

namespace {

/// A map of 16-bit elements or bytes in the 128-byte swizzle, or empty. Sizes are in elements, strides in bytes.
template <int kAxes>
std::optional<CUtensorMap> make_map(const ConstView& view, const cuuint64_t (&sizes)[kAxes],
                                    const cuuint64_t (&strides)[kAxes - 1], const cuuint32_t (&box)[kAxes]) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found == cudaDriverEntryPointSuccess ? function
                                                                                                    : nullptr);
  }();
  if (encode == nullptr || view.strides[3] != 1) return std::nullopt;
  for (const cuuint64_t stride : strides) {
    if (stride % 16 != 0) return std::nullopt;
  }
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map,
             view.dtype == DType::bf16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
             : view.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_UINT8,
             kAxes, const_cast<void*>(view.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return std::nullopt;
  return map;
}

cuuint64_t size_of_axis(const ConstView& view, int axis) { return static_cast<cuuint64_t>(view.shape[axis]); }
/// The stride of an axis of one element is never used, but must be valid.
cuuint64_t bytes_of_axis(const ConstView& view, int axis) {
  return static_cast<cuuint64_t>(view.shape[axis] == 1 ? 128 : 2 * view.strides[axis]);
}

}  // namespace

std::optional<CUtensorMap> tile_map(const ConstView& view, int rows) {
  const auto size = [&](int axis) { return size_of_axis(view, axis); };
  const auto bytes = [&](int axis) { return bytes_of_axis(view, axis); };
  const auto parts = static_cast<cuuint32_t>(size(3) / 64);
  return make_map<5>(view, {64, size(2), parts, size(1), size(0)}, {bytes(2), 128, bytes(1), bytes(0)},
                     {64, static_cast<cuuint32_t>(rows), parts, 1, 1});
}

std::optional<CUtensorMap> pair_map(const ConstView& view, int rows) {
  const auto element = static_cast<cuuint64_t>(size_of(view.dtype));
  const auto is_one = [&](int axis) { return view.shape[axis] == 1 || view.strides[axis] == 0; };
  if (view.shape[2] > 1 && view.strides[2] == 0) return std::nullopt;
  const auto size = [&](int axis) { return is_one(axis) ? 1 : size_of_axis(view, axis); };
  const auto bytes = [&](int axis) {
    return is_one(axis) ? 128 : element * static_cast<cuuint64_t>(view.strides[axis]);
  };
  return make_map<4>(view, {size_of_axis(view, 3), size(2), size(1), size(0)}, {bytes(2), bytes(1), bytes(0)},
                     {static_cast<cuuint32_t>(128 / element), static_cast<cuuint32_t>(rows), 1, 1});
}

bool is_for_hopper(const AttentionProblem& problem) {
  if (architecture() != 90) return false;
  const DType dtype = problem.q.dtype;
  const int64_t dim = problem.q.shape[3];
  if ((dtype != DType::bf16 && dtype != DType::f16) || (dim != 64 && dim != 128) || problem.v.shape[3] != dim)
    return false;
  constexpr int64_t kLimit = int64_t{1} << 29;  // positions and tile numbers are 32-bit
  const int64_t sequences = problem.q_offsets ? problem.q_offsets.shape[0] : 1;
  return problem.q.shape[2] < kLimit && problem.k.shape[2] < kLimit &&
         problem.q.shape[0] * problem.q.shape[1] * (problem.q.shape[2] / 64 + sequences) < kLimit;
}

bool changes_scores(const AttentionProblem& problem) {
  return problem.mask || problem.bias || problem.alibi || problem.softcap > 0 || problem.dropout > 0 ||
         !(problem.scale > 0);
}

namespace {

PairSource pair_source(const ConstView& view) {
  if (!view) return {};
  const auto per_chunk = static_cast<int64_t>(16 / size_of(view.dtype));
  const auto fits = [&](int64_t axis) { return view.shape[axis] <= 1 || view.strides[axis] % per_chunk == 0; };
  return {view.data,
          view.strides[0],
          view.strides[1],
          view.strides[2],
          view.strides[3],
          view.strides[3] == 1 && reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && fits(0) && fits(1) && fits(2)};
}

}  // namespace

ScoreOptions score_options(const AttentionProblem& problem) {
  ScoreOptions options;
  options.scale = static_cast<float>(problem.scale);
  if (problem.softcap > 0) options.cap = cap_options(problem.scale, problem.softcap);
  options.slopes = static_cast<const uint16_t*>(problem.alibi.data);
  options.slope_step = problem.alibi ? problem.alibi.strides[0] : 0;
  options.bias = pair_source(problem.bias);
  options.mask = pair_source(problem.mask);
  options.drops = problem.dropout > 0;
  DropOptions& drop = options.drop;
  auto k0 = static_cast<uint32_t>(problem.random.seed), k1 = static_cast<uint32_t>(problem.random.seed >> 32);
  for (int round = 0; round < kDropRounds; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    drop.keys[2 * round] = k0;
    drop.keys[2 * round + 1] = k1;
  }
  drop.stream = problem.random.stream;
  drop.base = problem.random.base;
  drop.groups = static_cast<uint64_t>((problem.k.shape[2] + kDropGroup - 1) / kDropGroup);
  drop.thresholds = two_thresholds(drop_threshold(problem.dropout));
  drop.kept = static_cast<float>(1 / (1 - problem.dropout));
  return options;
}

VisibilityOptions visibility_options(const AttentionProblem& problem) {
  return {.queries = static_cast<int>(problem.q.shape[2]),
          .keys = static_cast<int>(problem.k.shape[2]),
          .causal = problem.causal,
          .bottom_right = problem.bottom_right,
          .window = static_cast<int>(std::min<int64_t>(problem.window, int64_t{1} << 29))};
}

}  // namespace attend::cuda
