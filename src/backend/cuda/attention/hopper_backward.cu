#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_backward_roles.cuh"
#include "backend/cuda/attention/tensor.h"

// The backward pass on Hopper, after FlashAttention-3 (Shah et al. 2024). A CTA owns a block of 128 keys, whose dk and
// dv stay in the registers of two warpgroups of 64 keys each, and walks over the blocks of queries. A producer warp
// copies tiles into shared memory. The products have keys as rows: Sᵀ = k qᵀ and dPᵀ = v dyᵀ, so that Pᵀ and dSᵀ are in
// the registers as dv += Pᵀ dy and dk += dSᵀ q need them. dSᵀ also goes through shared memory, as dq = dS k sums over
// the keys of both warpgroups; this product is one step late, so that no warpgroup waits for the other. Two more warps
// add the parts of dq to global memory, in the order of hopper_schedule.h; each takes every second part, because
// waiting for a turn, adding and passing the turn on take about as long as a step.
//
// A hidden pair has weight 0, and 0 · NaN would leak. Blocks with a gradient that is not finite are marked for a
// kernel that skips hidden pairs.
namespace attend::cuda {
namespace {

template <class T, int kDim>
__global__ void __launch_bounds__(384, 1) backward_kernel(const __grid_constant__ BackwardArguments args) {
  constexpr int kFew = 24, kMany = 240;  // registers; products wait for each other if they have fewer
  static_assert(kFew + 2 * kMany <= 3 * kLaunchRegisters<384>);
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<BackwardShared<kDim>*>(memory);
  if (shared_address(memory) % 1024 != 0) __trap();  // shared memory has no room to align it
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&args.q, &args.k, &args.v, &args.dy}) prefetch_map(*map);
    barrier_init(&shared.kv_full, 1);
    barrier_init(&shared.kv_empty, kConsumerWarps + kAdders);
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&shared.full[stage], 1);
      barrier_init(&shared.empty[stage], kConsumerWarps);
      barrier_init(&shared.ds_full[stage], kConsumerWarps);
      barrier_init(&shared.ds_empty[stage], kConsumerWarps);
      barrier_init(&shared.dq_full[stage], kConsumerWarps);
      barrier_init(&shared.dq_empty[stage], 1);
      barrier_init(&shared.item_done[stage], kAdders);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<kFew>();
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      if (threadIdx.x == 0) produce<kDim>(args, shared);
    } else if (warp <= kAdders) {
      add_parts<kDim>(args, shared, warp - 1);
    }
  } else {
    more_registers<kMany>();
    consume<T, kDim>(args, shared);
  }
}

template <class T, int kDim>
void launch(const BackwardArguments& args, int64_t tickets) {
  const auto kernel = backward_kernel<T, kDim>;
  constexpr int kBytes = sizeof(BackwardShared<kDim>);
  static_assert(kBytes <= 227 * 1024);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "attention.backward");
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(tickets, multiprocessors()));
  kernel<<<ctas, 384, kBytes, stream()>>>(args);
  check_launch("attention.backward");
}

/// The parts of the arguments that follow from the problem's shape and options.
void set_schedule(BackwardArguments& args, const AttentionProblem& problem, int queries_per_block) {
  args.schedule.visibility = visibility_options(problem);
  args.heads = static_cast<int>(problem.q.shape[1]);
  args.key_heads = static_cast<int>(problem.k.shape[1]);
  args.schedule.heads = args.heads / args.key_heads;
  args.schedule.key_heads = args.key_heads;
  args.schedule.ctas = multiprocessors();
  args.query_blocks = divide_up(args.schedule.visibility.queries, queries_per_block);
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
  const int queries_per_block = block_queries(dim);
  const auto q = tile_map(problem.q, queries_per_block), k = tile_map(problem.k, kKeys), v = tile_map(problem.v, kKeys),
             dy = tile_map(gradients.dy, queries_per_block);
  if (!q || !k || !v || !dy) return false;

  BackwardArguments args{.q = *q, .k = *k, .v = *v, .dy = *dy};
  set_schedule(args, problem, queries_per_block);
  args.dk = gradients.dk.data;
  args.dv = gradients.dv.data;
  if (gradients.dk) args.dk_strides = row_strides(gradients.dk);
  if (gradients.dv) args.dv_strides = row_strides(gradients.dv);
  const bool hides_pairs = problem.causal || problem.window > 0 || problem.lengths;
  const int64_t blocks = problem.q.shape[0] * args.heads * args.query_blocks;
  const Scratch<float> rows(2 * blocks * queries_per_block), dq(blocks * 2 * kHalf);
  args.lse = rows.data();
  args.delta = rows.data() + blocks * queries_per_block;
  args.dq = dq.data();

  // An upper bound: a wave of a key head may have a ticket without an item.
  const int64_t tickets = problem.q.shape[0] * args.key_heads * 2 * divide_up(args.schedule.visibility.keys, kKeys);
  const Scratch<BackwardTile> plan(2 * tickets + 1);
  args.plan = plan.data();

  // Counters and marks, 0 at first.
  constexpr int kRows = kBackwardMarkRows;
  const auto marked = [&](int64_t length) { return (length + kRows - 1) / kRows; };
  const int64_t query_marks = problem.q.shape[0] * args.heads * marked(problem.q.shape[2]);
  const int64_t key_marks = problem.q.shape[0] * args.key_heads * marked(problem.k.shape[2]);
  const int64_t counters = 4 + blocks, words = counters + (query_marks + key_marks + 3) / 4;
  const Scratch<uint32_t> zeros(words);
  check(cudaMemsetAsync(zeros.data(), 0, static_cast<size_t>(words) * 4, stream()), "attention.backward");
  args.ticket = zeros.data();
  args.tickets = reinterpret_cast<int*>(zeros.data() + 3);
  args.turns = zeros.data() + 4;
  if (hides_pairs) {
    uint8_t* marks = reinterpret_cast<uint8_t*>(zeros.data() + counters);
    args.query_marks = {zeros.data() + 1, marks, kRows, static_cast<int>(marked(problem.q.shape[2]))};
    args.key_marks = {zeros.data() + 2, marks + query_marks, kRows, static_cast<int>(marked(problem.k.shape[2]))};
  }

  plan_tiles(args, static_cast<int>(problem.q.shape[0]), queries_per_block);
  prepare_rows(args, gradients, args.query_blocks * queries_per_block);
  clear_padding(args, gradients);
  if (problem.q.dtype == DType::bf16)
    dim == 64 ? launch<__nv_bfloat16, 64>(args, tickets) : launch<__nv_bfloat16, 128>(args, tickets);
  else
    dim == 64 ? launch<__half, 64>(args, tickets) : launch<__half, 128>(args, tickets);
  if (gradients.dq) finish_queries(args, gradients.dq);
  if (hides_pairs) tensor_backward(problem, gradients, {args.query_marks, args.key_marks});
  return true;
}

}  // namespace attend::cuda
