#include "backend/cuda/attention/hopper_backward.h"

// What comes before and after the products of the backward pass: the plan of its tiles, one pass over y, dy and lse,
// and one over dq.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256, kBlockKeys = kBackwardKeys;

/// A CTA for each sequence.
template <int kQueries>
__global__ void __launch_bounds__(kThreads) plan_kernel(const __grid_constant__ BackwardArguments args) {
  using SequenceSchedule = Schedule<kQueries, kBlockKeys>;
  const int index = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const auto schedule_of = [&](int n) {
    const auto sequence = args.sequence(n);
    return SequenceSchedule(args.schedule, sequence.queries, sequence.keys);
  };
  int before = 0;  // tickets of earlier sequences
  for (int n = thread; n < index; n += kThreads) before += schedule_of(n).tickets();
  __shared__ int sums[kThreads / 32];
  before = __reduce_add_sync(0xffffffff, before);
  if (thread % 32 == 0) sums[thread / 32] = before;
  __syncthreads();
  before = 0;
  for (int sum : sums) before += sum;

  const SequenceSchedule schedule = schedule_of(index);
  const int tickets = schedule.tickets();
  const bool packed = args.q_offsets != nullptr;
  const auto tile_of = [&](const Ticket& ticket, int block) {
    const auto sequence = args.sequence(index);
    BackwardTile tile{.batch = sequence.batch,
                      .key_head = ticket.key_head,
                      .block = block,
                      .queries = sequence.queries,
                      .keys = sequence.keys,
                      .sequence = index,
                      .q_begin = sequence.q_begin,
                      .k_begin = sequence.k_begin,
                      .first_block = packed ? sequence.q_begin / kQueries + index : 0};
    tile.wave_end = before + ticket.wave_end;
    tile.is_last = block == ticket.item;
    if (block < 0) return tile;
    tile.walk = schedule.walk(block);
    tile.steps = tile.walk.count() * args.schedule.heads;
    const Blocks clear = schedule.clear_range(block, packed);
    tile.clear_begin = clear.begin;
    tile.clear_end = clear.end;
    return tile;
  };
  for (int n = thread; n < tickets; n += kThreads) {
    const Ticket ticket = schedule.ticket(n);
    BackwardTile* to = args.plan + 2 * (before + n);
    to[0] = tile_of(ticket, ticket.item < 0 ? -1 : schedule.partner(ticket.item));
    to[1] = tile_of(ticket, ticket.item);
  }
  if (thread != 0 || blockIdx.x + 1 < gridDim.x) return;
  args.plan[2 * (before + tickets)].batch = -1;
  *args.tickets = before + tickets;
}

struct RowsIn {
  const void *y, *dy;
  const float* lse;
  RowStrides y_strides, dy_strides, lse_strides;
  int block;  ///< queries of a block
  int64_t rows;
};

/// A query along the tensor's axis, its row in marks, and the number of queries of its sequence from it on (below 1:
/// there is no query).
struct QueryPlace {
  int row, marked, left;
};
/// The queries of a block, of which each sequence has whole ones.
__device__ __forceinline__ QueryPlace query_place(const BackwardArguments& args, int block, int rows) {
  const int first = block * rows;
  if (args.q_offsets == nullptr) return {first, first, args.schedule.visibility.queries - first};
  const PackedBlock found = packed_block(args.q_offsets, args.sequences, rows, block);
  return {found.begin + found.first, args.query_marks.packed_row(found.begin, found.sequence, found.first),
          found.length - found.first};
}

__device__ __forceinline__ int64_t offset(const RowStrides& step, int batch, int head, int row) {
  return batch * step.batch + head * step.head + row * step.row;
}

/// kDim / 8 threads for each query.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(const __grid_constant__ BackwardArguments args, const __grid_constant__ RowsIn in) {
  constexpr int kLanes = kDim / 8;
  const int64_t row = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t numbered = row / in.block;
  const int within = static_cast<int>(row - numbered * in.block);
  const int slice = static_cast<int>(numbered / args.query_blocks);
  const int batch = slice / args.heads, head = slice - batch * args.heads;
  const QueryPlace place = query_place(args, static_cast<int>(numbered - int64_t{slice} * args.query_blocks), in.block);
  const int i = place.row + within;
  const bool exists = row < in.rows && within < place.left;
  float sum = 0;
  if (exists) {
    const T* y = static_cast<const T*>(in.y) + offset(in.y_strides, batch, head, i);
    const T* dy = static_cast<const T*>(in.dy) + offset(in.dy_strides, batch, head, i);
    const uint4 a = reinterpret_cast<const uint4*>(y)[lane], b = reinterpret_cast<const uint4*>(dy)[lane];
    const uint32_t left[4]{a.x, a.y, a.z, a.w}, right[4]{b.x, b.y, b.z, b.w};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 u = unpack<T>(left[n]), v = unpack<T>(right[n]);
      sum = fmaf(u.x, v.x, sum);
      sum = fmaf(u.y, v.y, sum);
    }
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane != 0 || row >= in.rows) return;
  const float lse = exists ? in.lse[offset(in.lse_strides, batch, head, i)] : -INFINITY;
  args.lse[row] = lse == -INFINITY ? INFINITY : lse * kLog2E;
  args.delta[row] = sum;
}

struct RowsOut {
  void* dq;
  RowStrides strides;
};

/// A CTA for each block of queries of each head. A thread takes 8 columns of rows r and r + 8, which are side by side
/// in args.dq.
template <class T, int kDim, int kQueries>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const __grid_constant__ BackwardArguments args, const __grid_constant__ RowsOut out) {
  constexpr int kChunks = kDim / 8;
  constexpr int kOwn = kQueries == 64 ? kChunks / 2 : kChunks;  // chunks of columns of a warpgroup
  const int block = static_cast<int>(blockIdx.x) % args.query_blocks;
  const int slice = static_cast<int>(blockIdx.x) / args.query_blocks;
  const int batch = slice / args.heads, head = slice - batch * args.heads;
  const QueryPlace place = query_place(args, block, kQueries);
  const bool is_seeing = args.turns[blockIdx.x] != 0;
  const float4* from = reinterpret_cast<const float4*>(args.dq) + int64_t{blockIdx.x} * (kQueries * kDim / 4);
  T* to = static_cast<T*>(out.dq) + offset(out.strides, batch, head, 0);
#pragma unroll
  for (int n = 0; n < kQueries / 2 * kChunks; n += kThreads) {
    const int at = n + static_cast<int>(threadIdx.x), chunk = at % kChunks, pair = at / kChunks;
    // Blocks of 64 queries: the first warpgroup has the first half of the columns. Blocks of 128: the first 64 rows.
    const int group = kQueries == 64 ? chunk / kOwn : pair / 32, r = pair / 8 % 4 * 16 + pair % 8;
    float4 x[4] = {};
    if (is_seeing) {
#pragma unroll
      for (int l = 0; l < 4; ++l) x[l] = from[(group * kOwn + chunk % kOwn) * 128 + pair % 32 * 4 + l];
    }
    float probe = 0;
#pragma unroll
    for (int l = 0; l < 4; ++l) probe += 0 * x[l].x + 0 * x[l].y + (0 * x[l].z + 0 * x[l].w);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int within = (kQueries == 64 ? 0 : 64 * group) + r + 8 * half, row = place.row + within;
      if (within >= place.left) continue;
      uint32_t words[4];
#pragma unroll
      for (int l = 0; l < 4; ++l)
        words[l] = half == 0 ? pack<T>(x[l].x * args.scale, x[l].y * args.scale)
                             : pack<T>(x[l].z * args.scale, x[l].w * args.scale);
      *reinterpret_cast<uint4*>(to + row * out.strides.row + chunk * 8) = {words[0], words[1], words[2], words[3]};
      if (args.query_marks.any != nullptr && !(probe == 0)) args.query_marks.mark(slice, place.marked + within);
    }
  }
}

struct PaddingOut {
  void *dk, *dv;
  RowStrides dk_strides, dv_strides;
  int key_heads, keys, chunks;
};

/// A CTA for each block of keys of each key head.
__global__ void __launch_bounds__(kThreads)
    clear_padding_kernel(const int64_t* lengths, const __grid_constant__ PaddingOut out) {
  const int blocks = (out.keys + kBlockKeys - 1) / kBlockKeys, slice = static_cast<int>(blockIdx.x) / blocks;
  const int first = (static_cast<int>(blockIdx.x) - slice * blocks) * kBlockKeys;
  const int batch = slice / out.key_heads, head = slice - batch * out.key_heads;
  if (first < lengths[batch]) return;
  for (int n = static_cast<int>(threadIdx.x); n < kBlockKeys * out.chunks; n += kThreads) {
    const int row = first + n / out.chunks, column = n % out.chunks * 8;
    if (row >= out.keys) return;
    if (out.dk != nullptr)
      *reinterpret_cast<uint4*>(static_cast<uint16_t*>(out.dk) + offset(out.dk_strides, batch, head, row) +
                                column) = {};
    if (out.dv != nullptr)
      *reinterpret_cast<uint4*>(static_cast<uint16_t*>(out.dv) + offset(out.dv_strides, batch, head, row) +
                                column) = {};
  }
}

/// Calls f with a value of the element type and the head size.
template <class F>
void with_type(DType dtype, int64_t dim, F&& f) {
  const auto with_dim = [&](auto type) {
    if (dim == 64) return f(type, std::integral_constant<int, 64>{});
    return f(type, std::integral_constant<int, 128>{});
  };
  if (dtype == DType::bf16) return with_dim(__nv_bfloat16{});
  with_dim(__half{});
}

}  // namespace

void plan_tiles(const BackwardArguments& args, int queries_per_block) {
  const auto kernel = queries_per_block == 128 ? plan_kernel<128> : plan_kernel<64>;
  kernel<<<static_cast<unsigned>(args.sequences), kThreads, 0, stream()>>>(args);
  check_launch("attention.backward");
}

void prepare_rows(const BackwardArguments& args, const AttentionGradients& gradients, int queries_per_block) {
  const int64_t dim = gradients.dy.shape[3];
  const int64_t rows = gradients.dy.shape[0] * args.heads * args.query_blocks * queries_per_block,
                per_block = kThreads / (dim / 8);
  const RowsIn in{gradients.y.data,
                  gradients.dy.data,
                  static_cast<const float*>(gradients.lse.data),
                  row_strides(gradients.y),
                  row_strides(gradients.dy),
                  row_strides(gradients.lse),
                  queries_per_block,
                  rows};
  with_type(gradients.dy.dtype, dim, [&](auto type, auto size) {
    prepare_kernel<decltype(type), decltype(size)::value>
        <<<static_cast<unsigned>((rows + per_block - 1) / per_block), kThreads, 0, stream()>>>(args, in);
  });
  check_launch("attention.backward");
}

void finish_queries(const BackwardArguments& args, View dq, int queries_per_block) {
  const auto blocks = static_cast<unsigned>(dq.shape[0] * args.heads * args.query_blocks);
  with_type(dq.dtype, dq.shape[3], [&](auto type, auto size) {
    constexpr int kDim = decltype(size)::value;
    const auto kernel = queries_per_block == 64 ? finish_kernel<decltype(type), kDim, 64>
                                                : finish_kernel<decltype(type), kDim, 64 * 128 / kDim>;
    kernel<<<blocks, kThreads, 0, stream()>>>(args, RowsOut{dq.data, row_strides(dq)});
  });
  check_launch("attention.backward");
}

void clear_padding(const BackwardArguments& args, const AttentionGradients& gradients) {
  const View& any = gradients.dk ? gradients.dk : gradients.dv;
  if (args.lengths == nullptr || !any) return;
  const int keys = args.schedule.visibility.keys;
  const PaddingOut out{
      args.dk, args.dv, args.dk_strides, args.dv_strides, args.key_heads, keys, static_cast<int>(any.shape[3] / 8)};
  const int64_t blocks = any.shape[0] * args.key_heads * ((keys + kBlockKeys - 1) / kBlockKeys);
  clear_padding_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(args.lengths, out);
  check_launch("attention.backward");
}

}  // namespace attend::cuda
