#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backend/cuda/attention/row.cuh"
#include "backend/cuda/cuda.h"

// Attention weights on demand: recomputes the scores of the requested rows and takes e^(score − lse). A CTA takes
// kPartKeys keys of one row; a second kernel divides by the sum of the row. Scratch memory holds a group of rows.
namespace attend::cuda {
namespace attention {
namespace {

inline constexpr int kWeightThreads = 256;
inline constexpr int kPartKeys = 128, kFinishKeys = 1024;  ///< keys of a CTA of the two kernels

/// The requested heads, then the requested rows. A few are passed with the kernel, without a copy to the device.
struct Chosen {
  static constexpr int kFew = 256;
  const int64_t* all = nullptr;  ///< null: `few`
  std::array<int32_t, kFew> few{};
  int heads = 0, rows = 0;

  __device__ int at(int index) const { return all != nullptr ? static_cast<int>(all[index]) : few.data()[index]; }
};

struct WeightsCall {
  Problem p;
  const void* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  Chosen chosen;
  int top = 0;
  int parts = 0;            ///< of a row
  int64_t first = 0;        ///< the group's first task; a task is a row of a head of a batch entry
  void* weights = nullptr;  ///< [tasks of the group, keys]
  double* sums = nullptr;   ///< [tasks of the group, parts]
  void* values = nullptr;   ///< with `top`: [tasks, top]
  int64_t* places = nullptr;
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

/// The row of a task.
struct Task {
  int head = 0, i = 0;  ///< query i of the sequence
  Sequence sequence;

  __device__ Task(const WeightsCall& call, int64_t task) {
    const Chosen& chosen = call.chosen;
    const int row = chosen.at(chosen.heads + static_cast<int>(task % chosen.rows));
    head = chosen.at(static_cast<int>(task / chosen.rows % chosen.heads));
    const int b = static_cast<int>(task / chosen.rows / chosen.heads);
    sequence = Sequence::of(call.p, sequence_of(call.p, b, row));
    i = row - sequence.q_begin;
  }
};

/// The products of query i with the keys [begin, end) of its sequence, at most kPartKeys.
template <class C, int D>
__device__ void dot_products(const Problem& p, const Task& task, int begin, int end, C* products) {
  const Sequence& sequence = task.sequence;
  const int kv_head = task.head / p.group(), thread = static_cast<int>(threadIdx.x);
  RowPart<C, D> query;
  query.load(p.q, p.q.offset(sequence.batch, task.head, sequence.q_begin + task.i), p.dim);
  constexpr int kAhead = D <= 64 ? 4 : 2, kHalfWarps = kWeightThreads / kRowLanes;
  for (int first = begin; first < end; first += kAhead * kHalfWarps) {
    const int j = first + thread / kRowLanes;
    RowPart<C, D> key[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int at = min(j + n * kHalfWarps, end - 1);
      key[n].load(p.k, p.k.offset(sequence.batch, kv_head, sequence.k_begin + at), p.dim);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const C sum = sum_of_row(query.dot(key[n]));
      if (thread % kRowLanes == 0 && j + n * kHalfWarps < end) products[j + n * kHalfWarps - begin] = sum;
    }
  }
  __syncthreads();
}

/// e^(score − lse) of a part of a row of all keys, 0 for hidden keys, and the sum.
template <class C, int D>
__global__ void __launch_bounds__(kWeightThreads) part_kernel(const __grid_constant__ WeightsCall call) {
  __shared__ C products[kPartKeys];
  const Problem& p = call.p;
  const int64_t own = blockIdx.x / call.parts;
  const int part = static_cast<int>(blockIdx.x - own * call.parts), thread = static_cast<int>(threadIdx.x);
  const Task task(call, call.first + own);
  const Sequence& sequence = task.sequence;
  const Range seen = sequence.visible(task.i);
  const int first = part * kPartKeys - sequence.k_begin;  // of the sequence's keys
  const int begin = max(seen.begin, first), end = min(seen.end, first + kPartKeys);
  if (begin < end) dot_products<C, D>(p, task, begin, end, products);
  const Scorer<C> scorer(p, sequence, task.head);
  const int row = sequence.q_begin + task.i, j = first + thread, key = part * kPartKeys + thread;
  C lse =
      static_cast<const C*>(call.lse)[sequence.batch * call.lse_batch + task.head * call.lse_head + row * call.lse_row];
  if (lse == hidden_score<C>()) lse = -lse;
  C weight = 0;
  if (thread < kPartKeys && j >= begin && j < end) {
    const C score = scorer.score(products[j - begin], task.i, j);
    if (score != hidden_score<C>()) weight = weight_exp(score - lse);
  }
  if (thread < kPartKeys && key < p.keys) static_cast<C*>(call.weights)[own * p.keys + key] = weight;
  const double sum = sum_of_all(static_cast<double>(weight));
  if (thread == 0) call.sums[own * call.parts + part] = sum;
}

/// Since lse was rounded, the row is normalised again to sum to 1, as in the forward pass. Then dropout.
template <class C>
__global__ void __launch_bounds__(kWeightThreads) finish_kernel(const __grid_constant__ WeightsCall call, int pieces) {
  const Problem& p = call.p;
  const int64_t own = blockIdx.x / pieces;
  const int piece = static_cast<int>(blockIdx.x - own * pieces), thread = static_cast<int>(threadIdx.x);
  C* const weights = static_cast<C*>(call.weights) + own * p.keys;
  double sum = 0;
  for (int part = thread; part < call.parts; part += kWeightThreads) sum += call.sums[own * call.parts + part];
  sum = sum_of_all(sum);
  const Task task(call, call.first + own);
  const Scorer<C> scorer(p, task.sequence, task.head);
#pragma unroll
  for (int n = 0; n < kFinishKeys / kWeightThreads; ++n) {
    const int key = piece * kFinishKeys + n * kWeightThreads + thread, j = key - task.sequence.k_begin;
    if (key >= p.keys) break;
    C weight = weights[key];
    if (sum > 0) weight = static_cast<C>(static_cast<double>(weight) / sum);
    if (p.drops && j >= 0 && j < task.sequence.keys) weight *= scorer.keep(scorer.kept(task.i, j / 8), j % 8);
    weights[key] = weight;
  }
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

/// The largest entries of a row, in order: each search finds the first one behind the last one found.
template <class C>
__global__ void __launch_bounds__(kWeightThreads) top_kernel(const __grid_constant__ WeightsCall call) {
  __shared__ Entry<C> best[kWeightThreads / 32];
  const Problem& p = call.p;
  const C* const weights = static_cast<const C*>(call.weights) + int64_t{blockIdx.x} * p.keys;
  const int64_t out = (call.first + blockIdx.x) * call.top;
  const int thread = static_cast<int>(threadIdx.x);
  Entry<C> last{static_cast<C>(INFINITY), -1};
  const Entry<C> none{-static_cast<C>(INFINITY), p.keys};
  for (int n = 0; n < call.top; ++n) {
    Entry<C> found = none;
    for (int key = thread; key < p.keys; key += kWeightThreads) {
      const Entry<C> entry{weights[key], key};
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
      static_cast<C*>(call.values)[out + n] = exists ? found.value : static_cast<C>(NAN);
      call.places[out + n] = exists ? found.place : 0;
    }
    last = found;
  }
}

/// The chosen indices for the kernels; `memory` holds many ones.
Chosen chosen_of(const AttentionSelection& selection, std::optional<Scratch<int64_t>>& memory) {
  Chosen chosen{.heads = static_cast<int>(selection.heads.size()), .rows = static_cast<int>(selection.rows.size())};
  std::vector<int64_t> all = selection.heads;
  all.insert(all.end(), selection.rows.begin(), selection.rows.end());
  if (all.size() <= Chosen::kFew) {
    std::ranges::transform(all, chosen.few.begin(), [](int64_t index) { return static_cast<int32_t>(index); });
    return chosen;
  }
  memory.emplace(std::ssize(all));
  upload(memory->data(), all.data(), all.size() * sizeof(int64_t));
  chosen.all = memory->data();
  return chosen;
}

}  // namespace
}  // namespace attention

void attention_weights(const AttentionProblem& problem, ConstView lse, const AttentionSelection& selection, View values,
                       View places) {
  using namespace attention;
  WeightsCall call;
  call.p = problem_of(problem);
  call.lse = lse.data;
  call.lse_batch = lse.strides[0];
  call.lse_head = lse.strides[1];
  call.lse_row = lse.strides[2];
  std::optional<Scratch<int64_t>> indices;
  call.chosen = chosen_of(selection, indices);
  call.top = static_cast<int>(selection.top);
  call.values = values.data;
  call.places = static_cast<int64_t*>(places.data);
  const int64_t tasks = int64_t{call.p.batch} * call.chosen.heads * call.chosen.rows;
  if (call.p.keys == 0 || tasks == 0) return;
  call.parts = (call.p.keys + kPartKeys - 1) / kPartKeys;
  const int pieces = (call.p.keys + kFinishKeys - 1) / kFinishKeys;
  const int64_t group = std::min<int64_t>(tasks, 1024);
  with_class(problem, call.p.dim, [&](auto type, auto size) {
    using C = decltype(type);
    const Scratch<double> sums(group * call.parts);
    const Scratch<C> rows(call.top > 0 ? group * call.p.keys : 0);
    call.sums = sums.data();
    for (call.first = 0; call.first < tasks; call.first += group) {
      const int64_t count = std::min(group, tasks - call.first);
      call.weights = call.top > 0 ? rows.data() : static_cast<C*>(values.data) + call.first * call.p.keys;
      launch("attention.weights", part_kernel<C, decltype(size)::value>, count * call.parts, kWeightThreads, 0, call);
      launch("attention.weights", finish_kernel<C>, count * pieces, kWeightThreads, 0, call, pieces);
      if (call.top > 0) launch("attention.weights", top_kernel<C>, count, kWeightThreads, 0, call);
    }
  });
}

}  // namespace attend::cuda
