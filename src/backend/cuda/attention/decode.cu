#include "backend/cuda/attention/decode.cuh"
#include "backend/cuda/attention/row.cuh"
#include "backend/cuda/overlap.cuh"

// Attention of a few queries over a long cache. There are only 4 operations for each element of k and v, so the lower
// bound is the time to read k and v once. A CTA takes all queries that share one key head over a chunk of 256 keys; a
// second kernel joins the chunks in their order, if there are several. Q queries share a pass over the chunk. Chunks
// are counted from a sequence's first key and never change their size, so that the bits of a row depend on nothing else
// in the batch.
namespace attend::cuda::attention {
namespace {

inline constexpr int kDecodeKeys = 256;
/// One query alone has many threads, so that all its keys are on their way at once.
template <class C, int Q>
inline constexpr int kDecodeThreads = Q == 1 && sizeof(C) == 4 ? 256 : 128;
inline constexpr int kJoinThreads = 128;

/// Where the keys of a chunk are.
struct ChunkKeys {
  const int* rows;  // of k and v, in shared memory
  int begin;        // the first key
  int entry;        // of the batch

  __device__ int64_t offset(const Rows4& of, int head, int key) const {
    return of.offset(entry, head, rows[key - begin]);
  }
};

/// Asks for the rows [keys.begin, keys.end) of a head of k or v, so that later loads find them in L2.
template <int kThreads>
__device__ void prefetch_rows(const ChunkKeys& chunk, const Rows4& rows, int head, Range keys, int width) {
  constexpr int kLine = 128;
  const int item = rows.dtype == DType::f64 ? 8 : rows.dtype == DType::f32 ? 4 : 2;
  for (int at = keys.begin + static_cast<int>(threadIdx.x); at < keys.end; at += kThreads) {
    const char* row = static_cast<const char*>(rows.data) + chunk.offset(rows, head, at) * item;
    for (int byte = 0; byte < width * item; byte += kLine) prefetch_line(row + byte);
  }
}

/// Loads N rows, the n-th from element offset_of(n) on, so that all are on their way at once: no branch lies between
/// two loads of aligned rows of f32, f64 or bf16.
template <class C, int D, int N, class Offset>
__device__ __forceinline__ void load_parts(RowPart<C, D> (&parts)[N], const Rows4& rows, int dim, Offset offset_of) {
  using Part = RowPart<C, D>;
  const auto for_chunks = [&](auto f) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int64_t offset = offset_of(n);
#pragma unroll
      for (int c = 0; c < Part::kChunks; ++c) {
        const int column = (static_cast<int>(threadIdx.x) % kRowLanes + c * kRowLanes) * kChunk<C>;
        f(n, c, offset + min(column, dim - kChunk<C>), column < dim);
      }
    }
  };
  const bool aligned = rows.aligned && dim > 0;
  if (aligned && (sizeof(C) == 8 || rows.dtype == DType::f32)) {
    for_chunks([&](int n, int c, int64_t at, bool exists) {
      const auto chunk = *reinterpret_cast<const Chunk<C>*>(static_cast<const C*>(rows.data) + at);
      parts[n].chunk[c] = exists ? chunk : Chunk<C>{};
    });
    return;
  }
  if constexpr (sizeof(C) == 4) {
    if (aligned && rows.dtype == DType::bf16) {
      uint2 bits[N][Part::kChunks];
      for_chunks([&](int n, int c, int64_t at, bool exists) {
        const uint2 pair = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(rows.data) + at);
        bits[n][c] = exists ? pair : make_uint2(0, 0);
      });
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int c = 0; c < Part::kChunks; ++c) {
          const uint2 pair = bits[n][c];
          parts[n].chunk[c] = {{__uint_as_float(pair.x << 16), __uint_as_float(pair.x & 0xffff0000u),
                                __uint_as_float(pair.y << 16), __uint_as_float(pair.y & 0xffff0000u)}};
        }
      }
      return;
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n) parts[n].load(rows, offset_of(n), dim);
}

/// Scores of the queries of a pass against the keys of [keys.begin, keys.end).
template <class C, int D, int Q>
__device__ void decode_scores(const Problem& p, const Sequence& sequence, const ChunkKeys& chunk, int kv_head,
                              int first, int rows, Range keys, C (*scores)[kDecodeKeys]) {
  constexpr int kHalfWarps = kDecodeThreads<C, Q> / kRowLanes;
  const int half_warp = static_cast<int>(threadIdx.x) / kRowLanes, lane = static_cast<int>(threadIdx.x) % kRowLanes;
  RowPart<C, D> queries[Q];
#pragma unroll
  for (int r = 0; r < Q; ++r) {
    const int row = min(first + r, rows - 1);
    queries[r].load(p.q, p.q.offset(sequence.batch, kv_head * p.group() + row / p.queries, row % p.queries), p.dim);
  }
  constexpr int kAhead = D <= 64 ? 8 : D <= 128 ? 4 : 2;
#pragma unroll 1
  for (int base = 0; base < keys.end - keys.begin; base += kAhead * kHalfWarps) {  // the same for the whole warp
    const int j = base + half_warp;
    RowPart<C, D> key[kAhead];
    load_parts<C, D>(key, p.k, p.dim, [&](int n) {
      return chunk.offset(p.k, kv_head, min(keys.begin + j + n * kHalfWarps, keys.end - 1));
    });
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
#pragma unroll
      for (int r = 0; r < Q; ++r) {
        const C sum = sum_of_row(queries[r].dot(key[n]));
        if (lane == r) scores[r][j + n * kHalfWarps] = sum;
      }
    }
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < Q * kDecodeKeys; n += kDecodeThreads<C, Q>) {
    const int r = n / kDecodeKeys, j = n % kDecodeKeys, row = first + r;
    if (row >= rows) break;
    const Scorer<C> scorer(p, sequence, kv_head * p.group() + row / p.queries);
    scores[r][j] =
        keys.begin + j < keys.end ? scorer.score(scores[r][j], row % p.queries, keys.begin + j) : hidden_score<C>();
  }
  __syncthreads();
}

/// Turns the scores of a row into weights; a warp does it. Returns the maximum and the sum before dropout.
template <class C>
__device__ void decode_softmax(const Scorer<C>& scorer, int i, int first_key, C* scores, C* state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  C top = hidden_score<C>(), sum = 0;
  bool odd = false;
#pragma unroll
  for (int n = 0; n < kDecodeKeys; n += 32) {
    top = max(top, scores[n + lane]);
    odd = odd || scores[n + lane] != scores[n + lane];
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) top = max(top, __shfl_xor_sync(~0u, top, step));
  if (__any_sync(~0u, odd)) top = static_cast<C>(NAN);  // so that a NaN score reaches the output
  const C shift = top == hidden_score<C>() ? C{0} : top;
#pragma unroll
  for (int n = 0; n < kDecodeKeys; n += 32) {
    const C weight = weight_exp(scores[n + lane] - shift);
    sum += weight;
    C kept = weight;
    if (scorer.p.drops) {
      const int key = first_key + n + lane;
      kept *= scorer.keep(scorer.kept(i, key / 8), key % 8);
    }
    scores[n + lane] = kept;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) {
    state[0] = top;
    state[1] = sum;
  }
}

template <class C, int D, int Q>
__global__ void __launch_bounds__(kDecodeThreads<C, Q>) decode_kernel(const __grid_constant__ DecodeCall call) {
  let_next_start();
  wait_for_earlier();
  constexpr int kThreads = kDecodeThreads<C, Q>, kHalfWarps = kThreads / kRowLanes;
  const Problem& p = call.p;
  const int chunk = static_cast<int>(blockIdx.x) % call.chunks, rest = static_cast<int>(blockIdx.x) / call.chunks;
  const int kv_head = rest % p.kv_heads, b = rest / p.kv_heads;
  const Sequence sequence = Sequence::of(p, b);
  const int rows = p.group() * p.queries;
  const int begin = chunk * kDecodeKeys;
  const Range any = sequence.visible_to_any(0, p.queries);
  const Range keys{begin, min(begin + kDecodeKeys, sequence.keys)};
  const bool nothing = max(begin, any.begin) >= min(keys.end, any.end);
  const bool careful = p.hides_pairs() || p.causal || p.window > 0;

  __shared__ __align__(16) C scores[Q][kDecodeKeys];
  __shared__ C states[Q][2];  // maximum and sum
  extern __shared__ __align__(16) unsigned char memory[];
  C* sums = reinterpret_cast<C*>(memory);  // [half warp][query][D]
  const int thread = static_cast<int>(threadIdx.x), half_warp = thread / kRowLanes, lane = thread % kRowLanes;
  using Part = RowPart<C, D>;
  __shared__ int key_rows[kDecodeKeys];
  const bool is_paged = call.pages.tables != nullptr;
  const ChunkKeys own{key_rows, begin, is_paged ? 0 : b};
  if (!nothing) {
    for (int n = thread; n < kDecodeKeys; n += kThreads)
      key_rows[n] = is_paged && begin + n < keys.end ? call.paged_row(b, begin + n) : begin + n;
    __syncthreads();
    prefetch_rows<kThreads>(own, p.k, kv_head, keys, p.dim);
    prefetch_rows<kThreads>(own, p.v, kv_head, keys, p.width);
  }
  for (int first = 0; first < rows; first += Q) {
    const int count = min(Q, rows - first);
    if (nothing) {
      for (int n = thread; n < count * p.width; n += kThreads) {
        put_chunk<C>(call, {b, kv_head, first + n / p.width, chunk}, n % p.width, {hidden_score<C>(), C{0}, C{0}});
      }
      continue;
    }
    __syncthreads();
    decode_scores<C, D, Q>(p, sequence, own, kv_head, first, rows, keys, scores);
    if (thread / 32 < count) {
      const int r = thread / 32, row = first + r;
      const Scorer<C> scorer(p, sequence, kv_head * p.group() + row / p.queries);
      decode_softmax(scorer, row % p.queries, begin, scores[r], states[r]);
    }
    __syncthreads();
    Part output[Q] = {};
    constexpr int kAhead = D <= 64 ? 8 : D <= 128 ? 4 : 2;
#pragma unroll 1
    for (int j = half_warp; j < keys.end - begin; j += kAhead * kHalfWarps) {
      Part value[kAhead];
      load_parts<C, D>(value, p.v, p.width,
                       [&](int n) { return own.offset(p.v, kv_head, min(begin + j + n * kHalfWarps, keys.end - 1)); });
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        if (begin + j + n * kHalfWarps >= sequence.keys) continue;
#pragma unroll
        for (int r = 0; r < Q; ++r) {
          const C weight = scores[r][j + n * kHalfWarps];
          if (careful && weight == 0) continue;
#pragma unroll
          for (int c = 0; c < Part::kChunks; ++c) {
#pragma unroll
            for (int e = 0; e < kChunk<C>; ++e)
              output[r].chunk[c].at[e] = fma(weight, value[n].chunk[c].at[e], output[r].chunk[c].at[e]);
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < Q; ++r) {
#pragma unroll
      for (int c = 0; c < Part::kChunks; ++c) {
        const int column = (lane + c * kRowLanes) * kChunk<C>;
        if (column < D) *reinterpret_cast<Chunk<C>*>(sums + (half_warp * Q + r) * D + column) = output[r].chunk[c];
      }
    }
    __syncthreads();
    for (int n = thread; n < count * D; n += kThreads) {
      const int r = n / D, column = n % D;
      if (column >= p.width) continue;
      C sum = 0;
#pragma unroll
      for (int w = 0; w < kHalfWarps; ++w) sum += sums[(w * Q + r) * D + column];
      put_chunk<C>(call, {b, kv_head, first + r, chunk}, column, {states[r][0], states[r][1], sum});
    }
  }
}

/// Joins the chunks of one row in their order.
template <class C>
__global__ void __launch_bounds__(kJoinThreads) join_kernel(const __grid_constant__ DecodeCall call) {
  let_next_start();
  wait_for_earlier();
  const Problem& p = call.p;
  const int i = static_cast<int>(blockIdx.x) % p.queries, rest = static_cast<int>(blockIdx.x) / p.queries;
  const int head = rest % p.heads, b = rest / p.heads, step = 2 + p.width;
  const C* partial = static_cast<const C*>(call.partials) + int64_t{blockIdx.x} * call.chunks * step;
  C top = hidden_score<C>();
  for (int c = 0; c < call.chunks; ++c) {
    const C other = partial[int64_t{c} * step];
    if (other > top || other != other) top = other;
  }
  C total = 0;
  for (int c = 0; top != hidden_score<C>() && c < call.chunks; ++c) {
    const C* part = partial + int64_t{c} * step;
    if (part[0] != hidden_score<C>()) total = fma(part[1], weight_exp(part[0] - top), total);
  }
  for (int column = static_cast<int>(threadIdx.x); column < p.width; column += kJoinThreads) {
    C sum = 0;
    for (int c = 0; top != hidden_score<C>() && c < call.chunks; ++c) {
      const C* part = partial + int64_t{c} * step;
      if (part[0] != hidden_score<C>()) sum = fma(part[2 + column], weight_exp(part[0] - top), sum);
    }
    store<C>(call.y.data, call.y.offset(b, head, i) + column, call.y.dtype, total == 0 ? C{0} : sum / total);
  }
  if (threadIdx.x == 0)
    static_cast<C*>(call.lse)[b * call.lse_batch + head * call.lse_head + i * call.lse_row] = top + log(total);
}

}  // namespace

void decode(const AttentionProblem& problem, const Problem& p, View y, View lse) {
  DecodeCall call{p, rows_of(y), lse.data, lse.strides[0], lse.strides[1], lse.strides[2]};
  if (problem.page_table) {
    call.pages = {.tables = static_cast<const int64_t*>(problem.page_table.data),
                  .rows = static_cast<const int64_t*>(problem.table_rows.data),
                  .runs = static_cast<const int64_t*>(problem.runs.data),
                  .width = problem.page_table.strides[0],
                  .count = static_cast<int>(problem.runs.shape[0] - 1)};
  }
  const bool steps = can_step(p);
  const int keys = steps ? step_keys(p) : kDecodeKeys;
  call.chunks = (p.keys + keys - 1) / keys;
  const int64_t rows = int64_t{p.batch} * p.heads * p.queries;
  with_class(problem, std::max(p.dim, p.width), [&](auto type, auto size) {
    using C = decltype(type);
    constexpr int D = decltype(size)::value;
    const Scratch<C> partials(call.chunks > 1 ? rows * call.chunks * (2 + p.width) : 0);
    call.partials = partials.data();
    const auto run = [&](auto queries) {
      constexpr int Q = decltype(queries)::value, kThreads = kDecodeThreads<C, Q>;
      const int64_t ctas = int64_t{call.chunks} * p.kv_heads * p.batch;
      const size_t shared = sizeof(C) * (kThreads / kRowLanes) * Q * D;
      check(cudaFuncSetAttribute(decode_kernel<C, D, Q>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)),
            "attention.forward");
      launch_overlapped("attention.forward", decode_kernel<C, D, Q>,
                        {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .shared = shared}, call);
    };
    if (steps) {
      launch_step(call);
    } else if (p.heads == p.kv_heads && p.queries == 1) {
      run(std::integral_constant<int, 1>{});
    } else {
      run(std::integral_constant<int, 4>{});
    }
    if (call.chunks > 1) {
      launch_overlapped("attention.forward", join_kernel<C>,
                        {.grid = dim3(static_cast<unsigned>(rows)), .threads = kJoinThreads}, call);
    }
  });
}

}  // namespace attend::cuda::attention
