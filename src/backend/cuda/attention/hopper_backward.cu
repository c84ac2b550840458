#include "backend/cuda/attention/hopper.h"
#include "backend/cuda/attention/hopper_backward_consumer.cuh"
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

template <class T, class Shape>
__global__ void __launch_bounds__(384, 1) backward_kernel(const __grid_constant__ BackwardArguments args) {
  // Registers. With fewer, the products of head size 128 wait for each other (C7512 of ptxas).
  constexpr int kFew = Shape::kDim == 64 ? 56 : 24, kMany = Shape::kDim == 64 ? 224 : 240;
  static_assert(kFew + 2 * kMany <= 3 * kLaunchRegisters<384>);
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<BackwardShared<Shape>*>(memory);
  if (shared_address(memory) % 1024 != 0) __trap();  // shared memory has no room to align it
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&args.q, &args.k, &args.v, &args.dy}) prefetch_map(*map);
    barrier_init(&shared.kv_full, 1);
    barrier_init(&shared.kv_empty, 32 * (kConsumerWarps + kAdders + Shape::kScored));
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&shared.full[stage], 1);
      barrier_init(&shared.empty[stage], kConsumerWarps);
      barrier_init(&shared.ds_full[stage], kConsumerWarps);
      barrier_init(&shared.ds_empty[stage], kConsumerWarps + (Shape::kScored && args.has_dbias));
      barrier_init(&shared.dq_full[stage], kConsumerWarps);
      barrier_init(&shared.dq_empty[stage], 1);
    }
    for (uint64_t& done : shared.item_done) barrier_init(&done, kAdders);
    barrier_init(&shared.pairs_full, 32);
    barrier_init(&shared.pairs_empty, 32 * kConsumerWarps);
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<kFew>();
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      if (threadIdx.x == 0) produce(args, shared);
    } else if (warp <= kAdders) {
      add_parts(args, shared, warp - 1);
    } else if constexpr (Shape::kScored) {
      load_pairs(args, shared);
    }
  } else {
    more_registers<kMany>();
    consume<T>(args, shared);
  }
}

template <class T, int kDim, bool kScored>
void launch(const BackwardArguments& args, int64_t tickets) {
  using Shape = BackwardShape<kDim, kScored>;
  const auto kernel = backward_kernel<T, Shape>;
  constexpr int kBytes = sizeof(BackwardShared<Shape>);
  static_assert(kBytes <= 227 * 1024);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "attention.backward");
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(tickets, multiprocessors()));
  kernel<<<ctas, 384, kBytes, stream()>>>(args);
  check_launch("attention.backward");
}

template <class T>
void launch_for(const BackwardArguments& args, int64_t tickets, int64_t dim, bool scored) {
  if (scored)
    dim == 64 ? launch<T, 64, true>(args, tickets) : launch<T, 128, true>(args, tickets);
  else
    dim == 64 ? launch<T, 64, false>(args, tickets) : launch<T, 128, false>(args, tickets);
}

/// The parts of the arguments that follow from the problem's shape and options.
void set_schedule(BackwardArguments& args, const AttentionProblem& problem, int queries_per_block) {
  args.schedule.visibility = visibility_options(problem);
  args.heads = static_cast<int>(problem.q.shape[1]);
  args.key_heads = static_cast<int>(problem.k.shape[1]);
  args.schedule.heads = args.heads / args.key_heads;
  args.schedule.key_heads = args.key_heads;
  args.schedule.ctas = multiprocessors();
  const bool packed = static_cast<bool>(problem.q_offsets);
  args.sequences = static_cast<int>(packed ? problem.q_offsets.shape[0] - 1 : problem.q.shape[0]);
  args.query_blocks = packed ? packed_blocks(problem.q.shape[2], args.sequences, queries_per_block)
                             : divide_up(args.schedule.visibility.queries, queries_per_block);
  args.q_offsets = static_cast<const int64_t*>(problem.q_offsets.data);
  args.k_offsets = static_cast<const int64_t*>(problem.k_offsets.data);
  args.lengths = static_cast<const int64_t*>(problem.lengths.data);
  args.scale = static_cast<float>(problem.scale);
  args.scale_log2 = static_cast<float>(problem.scale * double{kLog2E});
}

/// Whether every element of dbias belongs to one pair, and dS can be written as it is.
bool is_dense(const AttentionProblem& problem, const View& dbias) {
  if (problem.q_offsets || problem.softcap > 0 || dbias.dtype != problem.q.dtype) return false;
  const int64_t sizes[4] = {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.k.shape[2]};
  for (int axis = 0; axis < 4; ++axis) {
    if (sizes[axis] > 1 && dbias.strides[axis] == 0) return false;
  }
  return true;
}

}  // namespace

bool hopper_backward(const AttentionProblem& problem, const AttentionGradients& gradients) {
  if (!is_for_hopper(problem) || gradients.lse.dtype != DType::f32) return false;
  const auto fits = [](const View& view) { return !view || has_wide_rows(view); };
  if (!has_wide_rows(gradients.y) || !fits(gradients.dq) || !fits(gradients.dk) || !fits(gradients.dv)) return false;
  if (problem.q.shape.numel() == 0 || problem.k.shape[2] == 0) return false;
  const int64_t dim = problem.q.shape[3];
  const bool scored = changes_scores(problem);
  const int queries_per_block = block_queries(dim, scored);
  const auto q = tile_map(problem.q, queries_per_block), k = tile_map(problem.k, kKeys), v = tile_map(problem.v, kKeys),
             dy = tile_map(gradients.dy, queries_per_block);
  if (!q || !k || !v || !dy) return false;

  BackwardArguments args{.q = *q, .k = *k, .v = *v, .dy = *dy};
  if (gradients.dbias) {
    const auto dbias = is_dense(problem, gradients.dbias) ? pair_map(gradients.dbias, queries_per_block) : std::nullopt;
    if (!dbias) return backward_with_buffer(problem, gradients);
    args.dbias = *dbias;
    args.has_dbias = true;
  }
  set_schedule(args, problem, queries_per_block);
  args.options = score_options(problem);
  args.dk = gradients.dk.data;
  args.dv = gradients.dv.data;
  if (gradients.dk) args.dk_strides = row_strides(gradients.dk);
  if (gradients.dv) args.dv_strides = row_strides(gradients.dv);
  const int64_t blocks = problem.q.shape[0] * args.heads * args.query_blocks;
  const Scratch<float> rows(2 * blocks * queries_per_block), dq(blocks * queries_per_block * dim);
  args.lse = rows.data();
  args.delta = rows.data() + blocks * queries_per_block;
  args.dq = dq.data();

  // An upper bound: a wave of a key head may have a ticket without an item.
  const int64_t key_blocks = problem.q_offsets ? packed_blocks(problem.k.shape[2], args.sequences, kKeys)
                                               : problem.q.shape[0] * divide_up(args.schedule.visibility.keys, kKeys);
  const int64_t tickets = 2 * args.key_heads * key_blocks;
  const Scratch<BackwardTile> plan(2 * tickets + 1);
  args.plan = plan.data();

  // Counters and marks, 0 at first.
  constexpr int kRows = kBackwardMarkRows;
  const auto marked = [&](int64_t length) {
    return packed_blocks(length, problem.q_offsets ? args.sequences : 0, kRows);
  };
  const int64_t query_marks = problem.q.shape[0] * args.heads * marked(problem.q.shape[2]);
  const int64_t key_marks = problem.q.shape[0] * args.key_heads * marked(problem.k.shape[2]);
  const int64_t counters = 4 + blocks, words = counters + (query_marks + key_marks + 3) / 4;
  const Scratch<uint32_t> zeros(words);
  check(cudaMemsetAsync(zeros.data(), 0, static_cast<size_t>(words) * 4, stream()), "attention.backward");
  args.ticket = zeros.data();
  args.tickets = reinterpret_cast<int*>(zeros.data() + 3);
  args.turns = zeros.data() + 4;
  const bool hides_pairs =
      problem.causal || problem.window > 0 || problem.lengths || problem.q_offsets || problem.mask || problem.bias;
  if (hides_pairs) {
    uint8_t* marks = reinterpret_cast<uint8_t*>(zeros.data() + counters);
    args.query_marks = {zeros.data() + 1, marks, kRows, marked(problem.q.shape[2])};
    args.key_marks = {zeros.data() + 2, marks + query_marks, kRows, marked(problem.k.shape[2])};
  }

  plan_tiles(args, queries_per_block);
  prepare_rows(args, gradients, queries_per_block);
  clear_padding(args, gradients);
  problem.q.dtype == DType::bf16 ? launch_for<__nv_bfloat16>(args, tickets, dim, scored)
                                 : launch_for<__half>(args, tickets, dim, scored);
  if (gradients.dq) finish_queries(args, gradients.dq, queries_per_block);
  if (hides_pairs) {
    AttentionGradients again = gradients;
    again.dbias = {};  // gradients of hidden pairs are 0 even where products of tiles leak
    tensor_backward(problem, again, {args.query_marks, args.key_marks});
  }
  return true;
}

}  // namespace attend::cuda
