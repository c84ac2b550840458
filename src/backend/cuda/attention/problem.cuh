#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <limits>

#include "backend/cuda/runtime.h"
#include "backend/kernels.h"

// An attention call as kernels take it, and the keys that each query sees. C is the type of the arithmetic: double for
// f64, float for f32, bf16 and f16.
namespace attend::cuda::attention {

inline constexpr int kLargestDim = 256;

/// A [batch, heads, length, dim] tensor with unit last stride.
struct Rows4 {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  ///< strides in elements
  DType dtype = DType::f32;
  bool aligned = false;  ///< every row allows accesses of kChunk elements, and has a multiple of kChunk elements

  __host__ __device__ int64_t offset(int b, int h, int i) const { return b * batch + h * head + i * row; }
};

/// A tensor that is broadcast to [batch, heads, queries, keys] by stride 0.
struct Pairs {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, key = 0;

  __device__ int64_t offset(int b, int h, int i, int j) const { return b * batch + h * head + i * row + j * key; }
};

/// Elements of type C in 16 bytes of shared memory.
template <class C>
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(C));

/// 16 bytes of elements.
template <class C>
struct alignas(16) Chunk {
  C at[kChunk<C>];
};

template <class C>
__device__ __forceinline__ C load(const void* data, int64_t at, DType dtype) {
  if constexpr (sizeof(C) == 8) {
    return static_cast<const double*>(data)[at];
  } else {
    if (dtype == DType::f32) return static_cast<const float*>(data)[at];
    if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    return __half2float(static_cast<const __half*>(data)[at]);
  }
}

template <class C>
__device__ __forceinline__ void store(void* data, int64_t at, DType dtype, C value) {
  if constexpr (sizeof(C) == 8) {
    static_cast<double*>(data)[at] = value;
  } else {
    if (dtype == DType::f32)
      static_cast<float*>(data)[at] = value;
    else if (dtype == DType::bf16)
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16(value);
    else
      static_cast<__half*>(data)[at] = __float2half(value);
  }
}

/// The chunk of a row that begins at element `at`, of which `valid` elements exist; the others are 0.
template <class C>
__device__ __forceinline__ Chunk<C> load_chunk(const Rows4& rows, int64_t at, int valid) {
  Chunk<C> chunk{};
  if (valid <= 0) return chunk;
  if (rows.aligned) {
    if constexpr (sizeof(C) == 4) {
      if (rows.dtype != DType::f32) {
        const uint2 bits = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(rows.data) + at);
        const uint32_t words[2]{bits.x, bits.y};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const auto half = static_cast<unsigned short>(words[n / 2] >> (n % 2 * 16));
          chunk.at[n] = rows.dtype == DType::bf16 ? __uint_as_float(static_cast<uint32_t>(half) << 16)
                                                  : __half2float(__ushort_as_half(half));
        }
        return chunk;
      }
    }
    return *reinterpret_cast<const Chunk<C>*>(static_cast<const C*>(rows.data) + at);
  }
#pragma unroll
  for (int n = 0; n < kChunk<C>; ++n) {
    if (n < valid) chunk.at[n] = load<C>(rows.data, at + n, rows.dtype);
  }
  return chunk;
}

template <class C>
__device__ __forceinline__ void store_chunk(const Rows4& rows, int64_t at, int valid, const Chunk<C>& chunk) {
  if (rows.aligned && sizeof(C) == size_t{rows.dtype == DType::f64 ? 8u : rows.dtype == DType::f32 ? 4u : 2u}) {
    if (valid > 0) *reinterpret_cast<Chunk<C>*>(static_cast<C*>(rows.data) + at) = chunk;
    return;
  }
#pragma unroll
  for (int n = 0; n < kChunk<C>; ++n) {
    if (n < valid) store<C>(rows.data, at + n, rows.dtype, chunk.at[n]);
  }
}

struct Problem {
  Rows4 q, k, v;
  Pairs mask, bias;
  const int64_t *lengths = nullptr, *q_offsets = nullptr, *k_offsets = nullptr;
  int sequences = 0;  ///< number of packed sequences
  const void* alibi = nullptr;
  int64_t alibi_step = 0;
  int batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, width = 0;
  bool causal = false, bottom_right = false;
  int window = 0;
  double scale = 1, softcap = 0;
  bool drops = false;
  double kept = 1;         ///< factor of the weights that dropout keeps
  uint32_t threshold = 0;  ///< drop_threshold()
  RandomStream random;

  __device__ int group() const { return heads / kv_heads; }
  /// Groups of keys of a query whose weights share a block of random words.
  __device__ uint64_t drop_groups() const { return static_cast<uint64_t>((keys + kDropGroup - 1) / kDropGroup); }
  /// True if a weight can be 0 because its key is hidden. Values of hidden keys may be NaN and must then be skipped.
  __device__ bool hides_pairs() const { return mask.data != nullptr || bias.data != nullptr; }
  /// True if scores need more than their scale.
  __device__ bool changes_scores() const { return hides_pairs() || alibi != nullptr || softcap > 0; }
};

/// [begin, end)
struct Range {
  int begin = 0, end = 0;
};

/// One sequence: a batch entry, or a part of a packed batch. Queries and keys are counted from its first ones.
struct Sequence {
  int batch = 0, q_begin = 0, queries = 0, k_begin = 0, keys = 0;
  int shift = 0;  ///< query i is at position i + shift
  int window = 0;
  bool causal = false;

  __device__ static Sequence of(const Problem& p, int index) {
    Sequence s;
    if (p.q_offsets != nullptr) {
      s.q_begin = static_cast<int>(p.q_offsets[index]);
      s.queries = static_cast<int>(p.q_offsets[index + 1]) - s.q_begin;
      s.k_begin = static_cast<int>(p.k_offsets[index]);
      s.keys = static_cast<int>(p.k_offsets[index + 1]) - s.k_begin;
    } else {
      s.batch = index;
      s.queries = p.queries;
      s.keys =
          p.lengths != nullptr ? static_cast<int>(min(max(p.lengths[index], int64_t{0}), int64_t{p.keys})) : p.keys;
    }
    s.shift = p.bottom_right ? s.keys - s.queries : 0;
    s.window = p.window;
    s.causal = p.causal;
    return s;
  }

  /// The keys that query i may see by position; a mask may hide more. Both ends increase with i.
  __device__ Range visible(int i) const {
    const int position = i + shift;
    const int begin = window > 0 ? min(max(position - window + 1, 0), keys) : 0;
    const int end = causal ? position + 1 : window > 0 ? position + window : keys;
    return {begin, min(max(end, begin), keys)};
  }
  /// Keys that any query, or every query, of [begin, end) sees.
  __device__ Range visible_to_any(int begin, int end) const { return {visible(begin).begin, visible(end - 1).end}; }
  __device__ Range visible_to_all(int begin, int end) const { return {visible(end - 1).begin, visible(begin).end}; }
  /// Queries that see any key of [keys_begin, keys_end): the inverse of `visible`.
  __device__ Range queries_seeing(int keys_begin, int keys_end) const {
    const int begin = causal ? keys_begin - shift : window > 0 ? keys_begin - shift - window + 1 : 0;
    const int end = window > 0 ? keys_end - 1 - shift + window : queries;
    const int first = min(max(begin, 0), queries);
    return {first, min(max(end, first), queries)};
  }
};

/// A block of rows of one sequence. sequence < 0: there is no such block.
struct Block {
  int sequence = -1, first = 0;
};

/// The block with this index, if every sequence is cut into blocks of `rows` along the axis of `offsets`. All threads
/// of the CTA call it. Without offsets, every sequence has `blocks` blocks.
template <int kThreads>
__device__ Block find_block(const int64_t* offsets, int sequences, int rows, int index) {
  __shared__ int totals[kThreads / 32];
  __shared__ Block found;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread == 0) found = {};
  int before = 0;
  for (int base = 0; base < sequences && before <= index; base += kThreads) {
    const int s = base + thread;
    const int count = s < sequences ? (static_cast<int>(offsets[s + 1] - offsets[s]) + rows - 1) / rows : 0;
    int sum = count;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == 31) totals[thread / 32] = sum;
    __syncthreads();
    int all = 0;
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      if (warp < thread / 32) sum += totals[warp];
      all += totals[warp];
    }
    const int end = before + sum;
    if (index >= end - count && index < end) found = {s, (index - (end - count)) * rows};
    before += all;
  }
  __syncthreads();
  const Block result = found;
  __syncthreads();
  return result;
}

/// Block `index` along the query axis or the key axis of sequence `b` (ignored for a packed batch).
template <int kThreads>
__device__ Block query_block(const Problem& p, int b, int rows, int index) {
  if (p.q_offsets != nullptr) return find_block<kThreads>(p.q_offsets, p.sequences, rows, index);
  return {index * rows < p.queries ? b : -1, index * rows};
}
template <int kThreads>
__device__ Block key_block(const Problem& p, int b, int rows, int index) {
  if (p.k_offsets != nullptr) return find_block<kThreads>(p.k_offsets, p.sequences, rows, index);
  return {index * rows < p.keys ? b : -1, index * rows};
}

/// An upper bound of the number of blocks along the query axis or the key axis of one batch entry.
inline int64_t query_blocks(const Problem& p, int rows) { return (p.queries + rows - 1) / rows + p.sequences; }
inline int64_t key_blocks(const Problem& p, int rows) { return (p.keys + rows - 1) / rows + p.sequences; }

/// The problem of a call. Throws DeviceError if the kernels do not support it.
Problem problem_of(const AttentionProblem& problem);
Rows4 rows_of(const ConstView& view);
Pairs pairs_of(const ConstView& view);

/// Calls f with a value of the type of the arithmetic and the head-size class, at least max(dim, width).
template <class F>
void with_class(const AttentionProblem& problem, int64_t largest, F&& f) {
  using std::integral_constant;
  if (problem.q.dtype == DType::f64) {
    if (largest <= 64) return f(double{}, integral_constant<int, 64>{});
    return f(double{}, integral_constant<int, 256>{});
  }
  if (largest <= 64) return f(float{}, integral_constant<int, 64>{});
  if (largest <= 128) return f(float{}, integral_constant<int, 128>{});
  return f(float{}, integral_constant<int, 256>{});
}

/// Launches a kernel of kThreads threads with `shared` bytes of dynamic shared memory.
template <class... Parameters, class... Args>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared,
            const Args&... args) {
  if (blocks <= 0) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, stream()>>>(args...);
  check_launch(name);
}

/// Attention of few queries; the keys are split over CTAs.
void decode(const AttentionProblem& problem, const Problem& p, View y, View lse);

}  // namespace attend::cuda::attention
