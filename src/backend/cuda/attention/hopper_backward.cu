#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_backward_roles.cuh"
#include "backend/cuda/attention/tensor.h"

// The backward pass on Hopper, after FlashAttention-3 (Shah et al. 2024). A CTA owns a block of 128 keys, whose dk and
// dv stay in the registers of two warpgroups of 64 keys each, and walks over the blocks of queries. A producer warp
// copies tiles into shared memory. The products have keys as rows: Sᵀ = k qᵀ and dPᵀ = v dyᵀ, so that Pᵀ and dSᵀ are in
// the registers as dv += Pᵀ dy and dk += dSᵀ q need them. dSᵀ also goes through shared memory, as dq = dS k sums over
// the keys of both warpgroups; this product is one step late, so that no warpgroup waits for the other. Two more warps
// add the parts of dq to global memory, in the order of hopper_schedule.h.
//
// A hidden pair has weight 0, and 0 · NaN would leak. Blocks with a gradient that is not finite are marked for a
// kernel that skips hidden pairs.
namespace attend::cuda {
namespace {

template <class T, int kDim>
__global__ void __launch_bounds__(384, 1) backward_kernel(const __grid_constant__ BackwardArguments args) {
  constexpr int kFew = 24, kMany = 240;  // registers; products wait for each other if they have fewer
  static_assert(kFew + 2 * kMany <= 3 * kLaunchRegisters<384>);
  extern __shared__ char memory[];
  using Shared = BackwardShared<kDim>;
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&args.q, &args.k, &args.v, &args.dy}) prefetch_map(*map);
    barrier_init(&shared.kv_full, 1);
    barrier_init(&shared.kv_empty, kConsumerWarps + 2);
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&shared.full[stage], 1);
      barrier_init(&shared.empty[stage], kConsumerWarps);
      barrier_init(&shared.ds_full[stage], kConsumerWarps);
      barrier_init(&shared.ds_empty[stage], kConsumerWarps);
    }
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < Shared::kParts; ++part) {
        barrier_init(&shared.dq_full[half][part], kConsumerWarps / 2);
        barrier_init(&shared.dq_empty[half][part], 1);
      }
    }
    barrier_init(&shared.item_done, 2);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<kFew>();
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      if (threadIdx.x == 0) produce<kDim>(args, shared);
    } else if (warp < 3) {
      add_parts<kDim>(args, shared, warp - 1);
    }
  } else {
    more_registers<kMany>();
    consume<T, kDim>(args, shared);
  }
}

template <class T, int kDim>
void launch(const BackwardArguments& args) {
  const auto kernel = backward_kernel<T, kDim>;
  constexpr int kBytes = sizeof(BackwardShared<kDim>) + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "attention.backward");
  kernel<<<std::min(args.all_items, multiprocessors()), 384, kBytes, stream()>>>(args);
  check_launch("attention.backward");
}

/// The parts of the arguments that follow from the problem's shape and options.
void set_schedule(BackwardArguments& args, const AttentionProblem& problem, int block_queries) {
  const auto above = [](int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); };
  args.schedule.visibility = visibility_options(problem);
  args.heads = static_cast<int>(problem.q.shape[1]);
  args.key_heads = static_cast<int>(problem.k.shape[1]);
  args.schedule.heads = args.heads / args.key_heads;
  args.query_blocks = above(problem.q.shape[2], block_queries);
  const int keys = args.schedule.visibility.keys;
  args.items = above(keys, kKeys);
  if (problem.causal && problem.window == 0) args.items = (args.items + 1) / 2;
  // Waves of equal size. It follows from the sequence alone, so that neighbours in the batch do not change the order.
  args.schedule.wave = above(args.items, above(args.items, multiprocessors()));
  args.all_items = static_cast<int>(problem.q.shape[0] * args.key_heads * args.items);
  args.lengths = static_cast<const int64_t*>(problem.lengths.data);
  args.scale = static_cast<float>(problem.scale);
  args.scale_log2 = static_cast<float>(problem.scale * double{kLog2E});
}

}  // namespace

bool hopper_backward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  if (!is_for_hopper(problem) || changes_scores(problem) || problem.q_offsets || gradients.lse.dtype != DType::f32 ||
      gradients.dbias)
    return false;
  const auto fits = [](const View& view) { return !view || has_wide_rows(view); };
  if (!has_wide_rows(gradients.y) || !fits(gradients.dq) || !fits(gradients.dk) || !fits(gradients.dv)) return false;
  if (problem.q.shape.numel() == 0 || problem.k.shape[2] == 0) return false;
  const int64_t dim = problem.q.shape[3];
  const int block_queries = dim == 64 ? 128 : 64;
  const auto q = tile_map(problem.q, block_queries), k = tile_map(problem.k, kKeys), v = tile_map(problem.v, kKeys),
             dy = tile_map(gradients.dy, block_queries);
  if (!q || !k || !v || !dy) return false;

  BackwardArguments args{.q = *q, .k = *k, .v = *v, .dy = *dy};
  set_schedule(args, problem, block_queries);
  args.dk = gradients.dk.data;
  args.dv = gradients.dv.data;
  if (gradients.dk) args.dk_strides = row_strides(gradients.dk);
  if (gradients.dv) args.dv_strides = row_strides(gradients.dv);
  const bool hides_pairs = problem.causal || problem.window > 0 || problem.lengths;
  const int64_t blocks = problem.q.shape[0] * args.heads * args.query_blocks;
  const Scratch<float> rows(2 * blocks * block_queries), dq(blocks * 2 * kHalf);
  args.lse = rows.data();
  args.delta = rows.data() + blocks * block_queries;
  args.dq = dq.data();

  // Counters and marks, 0 at first.
  constexpr int kRows = kBackwardMarkRows;
  const auto marked = [&](int64_t length) { return (length + kRows - 1) / kRows; };
  const int64_t query_marks = problem.q.shape[0] * args.heads * marked(problem.q.shape[2]);
  const int64_t key_marks = problem.q.shape[0] * args.key_heads * marked(problem.k.shape[2]);
  const int64_t counters = 3 + 2 * blocks, words = counters + (query_marks + key_marks + 3) / 4;
  const Scratch<uint32_t> zeros(words);
  check(cudaMemsetAsync(zeros.data(), 0, static_cast<size_t>(words) * 4, stream()), "attention.backward");
  args.ticket = zeros.data();
  args.turns = zeros.data() + 3;
  if (hides_pairs) {
    uint8_t* marks = reinterpret_cast<uint8_t*>(zeros.data() + counters);
    args.query_marks = {zeros.data() + 1, marks, kRows, static_cast<int>(marked(problem.q.shape[2]))};
    args.key_marks = {zeros.data() + 2, marks + query_marks, kRows, static_cast<int>(marked(problem.k.shape[2]))};
  }

  prepare_rows(args, gradients, args.query_blocks * block_queries);
  clear_padding(args, gradients);
  if (problem.q.dtype == DType::bf16)
    dim == 64 ? launch<__nv_bfloat16, 64>(args) : launch<__nv_bfloat16, 128>(args);
  else
    dim == 64 ? launch<__half, 64>(args) : launch<__half, 128>(args);
  if (gradients.dq) finish_queries(args, gradients.dq);
  if (hides_pairs) tensor_backward(problem, gradients, {args.query_marks, args.key_marks});
  return true;
}

}  // namespace attend::cuda
