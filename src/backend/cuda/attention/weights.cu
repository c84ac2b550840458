#include "backend/cuda/attention/row.cuh"
#include "backend/cuda/cuda.h"

// Attention weights on demand: recomputes the scores of the requested rows and takes e^(score − lse). A CTA takes one
// row after the other; its scratch memory holds one row.
namespace attend::cuda {
namespace attention {
namespace {

inline constexpr int kWeightThreads = 256;

struct WeightsCall {
  Problem p;
  const void* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  const int64_t *heads = nullptr, *rows = nullptr;
  int head_count = 0, row_count = 0, top = 0;
  void* values = nullptr;
  DType dtype = DType::f32;
  int64_t* places = nullptr;
  void* scratch = nullptr;  ///< [CTAs, keys]
};

/// The sum over all threads of a CTA, in a fixed order.
__device__ double sum_of_all(double sum) {
  __shared__ double sums[kWeightThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  double all = 0;
#pragma unroll
  for (int warp = 0; warp < kWeightThreads / 32; ++warp) all += sums[warp];
  return all;
}

/// The sequence of query `row` of the whole query axis.
__device__ int sequence_of(const Problem& p, int b, int64_t row) {
  if (p.q_offsets == nullptr) return b;
  int first = 0, last = p.sequences - 1;  // the last sequence that begins at or before the row
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (p.q_offsets[middle] <= row)
      first = middle;
    else
      last = middle - 1;
  }
  return first;
}

/// weights[j] = the weight of query i on key j of its sequence, for all keys of the sequence. Since lse was rounded,
/// the row is normalised again to sum to 1, as in the forward pass.
template <class C, int D>
__device__ void row_weights(const WeightsCall& call, const Sequence& sequence, int head, int i, C* weights) {
  const Problem& p = call.p;
  const Scorer<C> scorer(p, sequence, head);
  const int row = sequence.q_begin + i, kv_head = head / p.group(), thread = static_cast<int>(threadIdx.x);
  const Range seen = sequence.visible(i);
  RowPart<C, D> query;
  query.load(p.q, p.q.offset(sequence.batch, head, row), p.dim);
  constexpr int kAhead = D <= 64 ? 4 : 2, kHalfWarps = kWeightThreads / kRowLanes;
  for (int j = seen.begin + thread / kRowLanes; j - thread / kRowLanes < seen.end; j += kAhead * kHalfWarps) {
    RowPart<C, D> key[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int at = min(j + n * kHalfWarps, sequence.keys - 1);
      key[n].load(p.k, p.k.offset(sequence.batch, kv_head, sequence.k_begin + at), p.dim);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const C sum = sum_of_row(query.dot(key[n]));
      if (thread % kRowLanes == 0 && j + n * kHalfWarps < seen.end) weights[j + n * kHalfWarps] = sum;
    }
  }
  __syncthreads();
  C lse = static_cast<const C*>(call.lse)[sequence.batch * call.lse_batch + head * call.lse_head + row * call.lse_row];
  if (lse == hidden_score<C>()) lse = -lse;
  double sum = 0;
  for (int j = thread; j < sequence.keys; j += kWeightThreads) {
    const bool visible = j >= seen.begin && j < seen.end;
    const C score = visible ? scorer.score(weights[j], i, j) : hidden_score<C>();
    const C weight = score == hidden_score<C>() ? C{0} : weight_exp(score - lse);
    weights[j] = weight;
    sum += static_cast<double>(weight);
  }
  sum = sum_of_all(sum);
  for (int j = thread; j < sequence.keys; j += kWeightThreads) {
    C weight = weights[j];
    if (sum > 0) weight = static_cast<C>(static_cast<double>(weight) / sum);
    if (p.drops) weight *= scorer.keep(word_of(scorer.words(i, j / 4), j % 4));
    weights[j] = weight;
  }
  __syncthreads();
}

template <class C>
struct Entry {
  C value;
  int place;
  /// Larger weights first; of equal ones, the earlier key.
  __device__ bool before(const Entry& other) const {
    return value > other.value || (value == other.value && place < other.place);
  }
};

/// The largest entries of a row of all keys, in order: each search finds the first one behind the last one found. Keys
/// outside the sequence have weight 0.
template <class C>
__device__ void take_top(const WeightsCall& call, const Sequence& sequence, const C* weights, int64_t out) {
  __shared__ Entry<C> best[kWeightThreads / 32];
  const Problem& p = call.p;
  const int thread = static_cast<int>(threadIdx.x);
  Entry<C> last{static_cast<C>(INFINITY), -1};
  const Entry<C> none{-static_cast<C>(INFINITY), p.keys};
  for (int n = 0; n < call.top; ++n) {
    Entry<C> found = none;
    for (int key = thread; key < p.keys; key += kWeightThreads) {
      const int j = key - sequence.k_begin;
      const Entry<C> entry{j >= 0 && j < sequence.keys ? weights[j] : C{0}, key};
      if (last.before(entry) && entry.before(found)) found = entry;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const Entry<C> other{__shfl_xor_sync(~0u, found.value, step), __shfl_xor_sync(~0u, found.place, step)};
      if (other.before(found)) found = other;
    }
    __syncthreads();
    if (thread % 32 == 0) best[thread / 32] = found;
    __syncthreads();
    found = best[0];
#pragma unroll
    for (int warp = 1; warp < kWeightThreads / 32; ++warp) {
      if (best[warp].before(found)) found = best[warp];
    }
    if (thread == 0) {
      const bool exists = found.place < p.keys;  // false if the row has NaN
      store<C>(call.values, out + n, call.dtype, exists ? found.value : static_cast<C>(NAN));
      call.places[out + n] = exists ? found.place : 0;
    }
    last = found;
  }
}

template <class C, int D>
__global__ void __launch_bounds__(kWeightThreads)
    weights_kernel(const __grid_constant__ WeightsCall call, int64_t tasks) {
  const Problem& p = call.p;
  C* weights = static_cast<C*>(call.scratch) + int64_t{blockIdx.x} * p.keys;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t row = call.rows[task % call.row_count];
    const int head = static_cast<int>(call.heads[task / call.row_count % call.head_count]);
    const int b = static_cast<int>(task / call.row_count / call.head_count);
    const Sequence sequence = Sequence::of(p, sequence_of(p, b, row));
    __syncthreads();
    row_weights<C, D>(call, sequence, head, static_cast<int>(row) - sequence.q_begin, weights);
    if (call.top > 0) {
      take_top(call, sequence, weights, task * call.top);
      continue;
    }
    for (int key = static_cast<int>(threadIdx.x); key < p.keys; key += kWeightThreads) {
      const int j = key - sequence.k_begin;
      store<C>(call.values, task * p.keys + key, call.dtype, j >= 0 && j < sequence.keys ? weights[j] : C{0});
    }
  }
}

}  // namespace
}  // namespace attention

void attention_weights(const AttentionProblem& problem, ConstView lse, const AttentionSelection& chosen, View values,
                       View places) {
  using namespace attention;
  WeightsCall call;
  call.p = problem_of(problem);
  call.lse = lse.data;
  call.lse_batch = lse.strides[0];
  call.lse_head = lse.strides[1];
  call.lse_row = lse.strides[2];
  call.heads = static_cast<const int64_t*>(chosen.heads.data);
  call.rows = static_cast<const int64_t*>(chosen.rows.data);
  call.head_count = static_cast<int>(chosen.heads.shape[0]);
  call.row_count = static_cast<int>(chosen.rows.shape[0]);
  call.top = static_cast<int>(chosen.top);
  call.values = values.data;
  call.dtype = values.dtype;
  call.places = static_cast<int64_t*>(places.data);
  const int64_t tasks = int64_t{call.p.batch} * call.head_count * call.row_count;
  if (call.p.keys == 0) return;
  const int64_t blocks = std::min<int64_t>(tasks, 4 * multiprocessors());
  with_class(problem, call.p.dim, [&](auto type, auto size) {
    using C = decltype(type);
    const Scratch<C> scratch(blocks * call.p.keys);
    call.scratch = scratch.data();
    launch("attention.weights", weights_kernel<C, decltype(size)::value>, blocks, kWeightThreads, 0, call, tasks);
  });
}

}  // namespace attend::cuda
