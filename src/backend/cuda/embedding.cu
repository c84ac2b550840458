#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.cuh"

// Gathers rows and elements by i64 indices, and adds gradients back to where they were gathered from. The additions to
// one element are made in the order of the index, without atomics on floats.
namespace attend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kAll = ~0u;

struct Index {
  const int64_t* data;
  int64_t cols, stride;
  __device__ int64_t operator[](int64_t i) const { return data[cols == stride ? i : i / cols * stride + i % cols]; }
};
Index index_of(const ConstRows& index) {
  const bool one_row = index.rows <= 1;
  return {static_cast<const int64_t*>(index.data), index.cols, one_row ? index.cols : index.stride};
}

__global__ void check_kernel(Index index, int64_t count, int64_t limit, unsigned long long* first) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count && (index[i] < 0 || index[i] >= limit)) atomicMin(first, static_cast<unsigned long long>(i));
}

/// y[i] = table[index[i]] in units of Unit; the strides count units.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(const Unit* table, int64_t table_stride, Index index, Unit* y, int64_t y_stride, int64_t rows,
                     FastDivide units) {
  const int64_t tasks = rows * units.divisor;
  for (int64_t task = int64_t{blockIdx.x} * kThreads + threadIdx.x; task < tasks;
       task += int64_t{gridDim.x} * kThreads) {
    const int64_t row = task < (int64_t{1} << 31) ? units.quotient(static_cast<uint32_t>(task)) : task / units.divisor;
    const int64_t unit = task - row * units.divisor;
    y[row * y_stride + unit] = table[index[row] * table_stride + unit];
  }
}

/// y[i] = table[index[i]], rounded to 16 bits, in packs of 8 elements.
template <class T>
__global__ void __launch_bounds__(kThreads)
    take_rounded_kernel(const float* table, int64_t table_stride, Index index, T* y, int64_t y_stride, int64_t rows,
                        int64_t cols, FastDivide packs, bool aligned) {
  constexpr int kN = kPack<T>;
  const int64_t tasks = rows * packs.divisor;
  for (int64_t task = int64_t{blockIdx.x} * kThreads + threadIdx.x; task < tasks;
       task += int64_t{gridDim.x} * kThreads) {
    const int64_t row = task < (int64_t{1} << 31) ? packs.quotient(static_cast<uint32_t>(task)) : task / packs.divisor;
    const int64_t col = (task - row * packs.divisor) * kN;
    const auto from = load_pack<kN>(table + index[row] * table_stride + col, cols - col, aligned);
    Pack<T, kN> rounded;
#pragma unroll
    for (int i = 0; i < kN; ++i) rounded.at[i] = narrow<T>(from.at[i]);
    store_pack<kN>(y + row * y_stride + col, rounded, cols - col, aligned);
  }
}

template <class T>
void take_rounded(const ConstRows& table, const ConstRows& index, const Rows& y) {
  const int64_t packs = ceil_div(y.cols, kPack<T>);
  take_rounded_kernel<T><<<grid_size(ceil_div(y.rows * packs, kThreads)), kThreads, 0, stream()>>>(
      static_cast<const float*>(table.data), table.stride, index_of(index), static_cast<T*>(y.data), y.stride, y.rows,
      y.cols, FastDivide(packs), rows_aligned(table, kPack<T>) && rows_aligned(y, kPack<T>));
  check_launch("take_rows");
}

// Sorting: positions are ordered by their index, and positions of one index keep their order.

/// The result of sorting n positions.
struct Sorted {
  uint32_t* keys;   ///< indices, ascending
  uint32_t* order;  ///< their positions
};

constexpr int64_t kRankLimit = 8192;
constexpr int kKeysPerWarp = 8;

/// Up to kRankLimit positions: the place of each is the number of smaller ones, found by comparing all pairs.
__global__ void __launch_bounds__(kThreads) rank_kernel(Index index, int n, Sorted sorted) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * kKeysPerWarp;
  int own[kKeysPerWarp], smaller[kKeysPerWarp] = {};
#pragma unroll
  for (int k = 0; k < kKeysPerWarp; ++k) own[k] = first + k < n ? static_cast<int>(index[first + k]) : 0;
  for (int j = lane; j < n; j += 32) {
    const int other = static_cast<int>(index[j]);
#pragma unroll
    for (int k = 0; k < kKeysPerWarp; ++k) smaller[k] += other < own[k] + (j < first + k ? 1 : 0);
  }
#pragma unroll
  for (int k = 0; k < kKeysPerWarp; ++k) {
    const int rank = __reduce_add_sync(kAll, smaller[k]);
    if (lane == 0 && first + k < n) {
      sorted.keys[rank] = static_cast<uint32_t>(own[k]);
      sorted.order[rank] = static_cast<uint32_t>(first + k);
    }
  }
}

// More positions: a radix sort, least significant digit first. A pass counts the digits of each tile, adds up the
// counts, and scatters.
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits, kTile = 1024, kWarps = kThreads / 32;
constexpr int kPerWarp = kTile / kWarps;
static_assert(kDigits == kThreads);

__global__ void keys_kernel(Index index, int64_t n, Sorted to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  to.keys[i] = static_cast<uint32_t>(index[i]);
  to.order[i] = static_cast<uint32_t>(i);
}

__device__ uint32_t digit_of(uint32_t key, int shift) { return (key >> shift) & (kDigits - 1); }

/// counts[digit, tile]
__global__ void __launch_bounds__(kThreads) count_kernel(const uint32_t* keys, int64_t n, int shift, uint32_t* counts) {
  __shared__ uint32_t digits[kDigits];
  digits[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < kTile; i += kThreads) {
    const int64_t at = int64_t{blockIdx.x} * kTile + i;
    if (at < n) atomicAdd(&digits[digit_of(keys[at], shift)], 1u);
  }
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = digits[threadIdx.x];
}

constexpr int kScanThreads = 1024;

/// Replaces each count by the sum of the counts before it. One CTA; a thread takes consecutive counts.
__global__ void __launch_bounds__(kScanThreads) scan_kernel(uint32_t* counts, int64_t n) {
  __shared__ uint32_t totals[kScanThreads / 32];
  const int64_t each = (n + kScanThreads - 1) / kScanThreads, first = threadIdx.x * each, end = min(n, first + each);
  uint32_t sum = 0;
  for (int64_t i = first; i < end; ++i) sum += counts[i];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto scan = [&](uint32_t value) {  // inclusive, over a warp
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint32_t below = __shfl_up_sync(kAll, value, offset);
      if (lane >= static_cast<unsigned>(offset)) value += below;
    }
    return value;
  };
  const uint32_t inclusive = scan(sum);
  if (lane == 31) totals[warp] = inclusive;
  __syncthreads();
  if (warp == 0) totals[lane] = scan(totals[lane]);
  __syncthreads();
  uint32_t before = inclusive - sum + (warp > 0 ? totals[warp - 1] : 0);
  for (int64_t i = first; i < end; ++i) {
    const uint32_t count = counts[i];
    counts[i] = before;
    before += count;
  }
}

/// Moves the positions of a tile to their places. A warp takes kPerWarp consecutive positions, 32 at a time in order.
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(Sorted from, int64_t n, int shift, const uint32_t* counts, Sorted to) {
  __shared__ uint32_t next[kWarps][kDigits];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int w = 0; w < kWarps; ++w) next[w][threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * kTile + warp * kPerWarp;
  for (int i = 0; i < kPerWarp; i += 32) {
    const int64_t at = first + i + lane;
    if (at < n) atomicAdd(&next[warp][digit_of(from.keys[at], shift)], 1u);
  }
  __syncthreads();
  uint32_t place = counts[threadIdx.x * gridDim.x + blockIdx.x];
  for (int w = 0; w < kWarps; ++w) {
    const uint32_t count = next[w][threadIdx.x];
    next[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
  for (int i = 0; i < kPerWarp; i += 32) {
    const int64_t at = first + i + lane;
    const bool inside = at < n;
    const uint32_t key = inside ? from.keys[at] : 0, digit = inside ? digit_of(key, shift) : kDigits;
    const unsigned same = __match_any_sync(kAll, digit), before = same & ((1u << lane) - 1);
    if (inside) {
      const uint32_t to_place = next[warp][digit] + __popc(before);
      to.keys[to_place] = key;
      to.order[to_place] = from.order[at];
    }
    __syncwarp();
    if (inside && before == 0) next[warp][digit] += __popc(same);
    __syncwarp();
  }
}

/// Sorts into one of two buffers of n keys and n positions each, and returns that one.
Sorted sort(const Index& index, int64_t n, int64_t limit, Sorted buffer, Sorted other) {
  if (n <= kRankLimit) {
    const auto blocks = static_cast<unsigned>(ceil_div(n, kKeysPerWarp * kWarps));
    rank_kernel<<<blocks, kThreads, 0, stream()>>>(index, static_cast<int>(n), buffer);
    check_launch("take_rows_backward");
    return buffer;
  }
  keys_kernel<<<static_cast<unsigned>(ceil_div(n, kThreads)), kThreads, 0, stream()>>>(index, n, buffer);
  check_launch("take_rows_backward");
  const int64_t tiles = ceil_div(n, kTile);
  const Scratch<uint32_t> counts(tiles * kDigits);
  for (int shift = 0; shift < 32 && (limit - 1) >> shift > 0; shift += kDigitBits) {
    count_kernel<<<static_cast<unsigned>(tiles), kThreads, 0, stream()>>>(buffer.keys, n, shift, counts.data());
    scan_kernel<<<1, kScanThreads, 0, stream()>>>(counts.data(), tiles * kDigits);
    scatter_kernel<<<static_cast<unsigned>(tiles), kThreads, 0, stream()>>>(buffer, n, shift, counts.data(), other);
    check_launch("take_rows_backward");
    std::swap(buffer, other);
  }
  return buffer;
}

// The sorted positions form segments of equal indices. They are cut at multiples of `chunk` positions, so that a very
// frequent index does not keep one warp busy for long: a segment inside a chunk is added to its row at once; of a
// longer one, each chunk's part is written, and a second kernel adds the parts in order.
struct Segments {
  Sorted sorted;
  int64_t n, chunk, cols;
  bool aligned;
};

/// acc += dy[order[j]] for the run of equal keys from `begin` on, up to `end`. Returns the end of the run.
template <class T, int kN, class S>
__device__ int64_t add_run(const Segments& segments, int64_t begin, int64_t end, const T* dy, int64_t stride,
                           int64_t col, S (&acc)[kN]) {
  const uint32_t key = segments.sorted.keys[begin], lane = threadIdx.x % 32;
  const int64_t valid = segments.cols - col;
  for (int64_t window = begin; window < end; window += 32) {
    const bool equal = window + lane < end && segments.sorted.keys[window + lane] == key;
    const uint32_t place = equal ? segments.sorted.order[window + lane] : 0;
    const int count = __popc(__ballot_sync(kAll, equal));
    constexpr int kAtOnce = 4;
    for (int j = 0; j < count; j += kAtOnce) {
      Pack<T, kN> packs[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t row = __shfl_sync(kAll, place, min(j + k, 31));
        if (j + k < count && valid > 0) packs[k] = load_pack<kN>(dy + row * stride + col, valid, segments.aligned);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (j + k >= count) break;
#pragma unroll
        for (int i = 0; i < kN; ++i) acc[i] += wide(packs[k].at[i]);
      }
    }
    if (count < 32) return window + count;
  }
  return end;
}

template <class T, int kN, class S>
__device__ void load_sums(const T* from, int64_t valid, bool aligned, S (&acc)[kN]) {
  if (valid <= 0) return;
  const auto pack = load_pack<kN>(from, valid, aligned);
#pragma unroll
  for (int i = 0; i < kN; ++i) acc[i] = wide(pack.at[i]);
}
template <class T, int kN, class S>
__device__ void store_sums(T* to, int64_t valid, bool aligned, const S (&acc)[kN]) {
  if (valid <= 0) return;
  Pack<T, kN> pack;
#pragma unroll
  for (int i = 0; i < kN; ++i) pack.at[i] = narrow<T>(acc[i]);
  store_pack<kN>(to, pack, valid, aligned);
}

/// A warp takes the segment or part that begins at its position, if one does; blockIdx.y cuts the columns. parts is
/// [chunks, 2, cols]: the part of the segment that began before the chunk, and of the one that continues after it.
template <class T, class D>
__global__ void __launch_bounds__(kThreads)
    segments_kernel(Segments segments, const T* dy, int64_t dy_stride, D* table, int64_t table_stride, Sum<D>* parts) {
  constexpr int kN = kPack<T>;
  const int64_t position = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (position >= segments.n) return;
  const uint32_t* const keys = segments.sorted.keys;
  const uint32_t key = keys[position];
  const bool begins = position == 0 || keys[position - 1] != key;
  if (!begins && position % segments.chunk != 0) return;
  const int64_t chunk = position / segments.chunk, limit = min(segments.n, (chunk + 1) * segments.chunk);
  const bool continues = limit < segments.n && keys[limit - 1] == key && keys[limit] == key,
             whole = begins && !continues;
  const int64_t col = (int64_t{blockIdx.y} * 32 + threadIdx.x % 32) * kN, valid = segments.cols - col;
  Sum<D> acc[kN] = {};
  D* const row = table + key * table_stride + col;
  if (whole) load_sums<D, kN>(row, valid, segments.aligned, acc);
  add_run<T, kN>(segments, position, limit, dy, dy_stride, col, acc);
  if (whole)
    store_sums<D, kN>(row, valid, segments.aligned, acc);
  else
    store_sums<Sum<D>, kN>(parts + (2 * chunk + (begins ? 1 : 0)) * segments.cols + col, valid, segments.aligned, acc);
}

/// A warp takes the segment that begins in its chunk and continues after it, if there is one.
template <class T, class D>
__global__ void __launch_bounds__(kThreads)
    parts_kernel(Segments segments, D* table, int64_t table_stride, const Sum<D>* parts) {
  constexpr int kN = kPack<T>;
  const int64_t chunk = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32, begin = chunk * segments.chunk;
  int64_t limit = begin + segments.chunk;
  if (limit >= segments.n) return;
  const uint32_t* const keys = segments.sorted.keys;
  const uint32_t key = keys[limit];
  if (keys[limit - 1] != key || (begin > 0 && keys[begin - 1] == key)) return;
  const int64_t col = (int64_t{blockIdx.y} * 32 + threadIdx.x % 32) * kN, valid = segments.cols - col;
  if (valid <= 0) return;
  Sum<D> acc[kN] = {};
  D* const row = table + key * table_stride + col;
  load_sums<D, kN>(row, valid, segments.aligned, acc);
  const auto add = [&](int64_t part) {
    Sum<D> values[kN] = {};
    load_sums<Sum<D>, kN>(parts + part * segments.cols + col, valid, segments.aligned, values);
#pragma unroll
    for (int i = 0; i < kN; ++i) acc[i] += values[i];
  };
  add(2 * chunk + 1);
#pragma unroll 4
  for (int64_t next = chunk + 1; limit < segments.n && keys[limit] == key; ++next, limit += segments.chunk) {
    add(2 * next);
  }
  store_sums<D, kN>(row, valid, segments.aligned, acc);
}

template <class T, class D>
void add_segments(const Sorted& sorted, const ConstRows& dy, const Rows& dtable) {
  constexpr int kN = kPack<T>;
  int64_t chunk = 32;  // about √n positions, so that neither kernel has a long chain of additions
  while (4 * chunk * chunk < 3 * dy.rows) chunk *= 2;
  const bool aligned = rows_aligned(dy, kN) && rows_aligned(dtable, kN) && dy.cols % kN == 0;
  const Segments segments{sorted, dy.rows, chunk, dy.cols, aligned};
  const int64_t chunks = ceil_div(dy.rows, chunk);
  const Scratch<Sum<D>> parts(chunks * 2 * dy.cols);
  const auto blocks = static_cast<unsigned>(ceil_div(dy.cols, 32 * kN));
  segments_kernel<T, D><<<dim3(static_cast<unsigned>(ceil_div(dy.rows, kWarps)), blocks), kThreads, 0, stream()>>>(
      segments, static_cast<const T*>(dy.data), dy.stride, static_cast<D*>(dtable.data), dtable.stride, parts.data());
  check_launch("take_rows_backward");
  if (chunks == 1) return;
  parts_kernel<T, D><<<dim3(static_cast<unsigned>(ceil_div(chunks, kWarps)), blocks), kThreads, 0, stream()>>>(
      segments, static_cast<D*>(dtable.data), dtable.stride, parts.data());
  check_launch("take_rows_backward");
}

template <class T>
__global__ void gather_kernel(const T* x, int64_t x_stride, const int64_t* index, int64_t index_stride, T* y,
                              int64_t y_stride, int64_t rows, int64_t cols) {
  for (int64_t task = int64_t{blockIdx.x} * kThreads + threadIdx.x; task < rows * cols;
       task += int64_t{gridDim.x} * kThreads) {
    const int64_t row = task / cols, i = task - row * cols;
    y[row * y_stride + i] = x[row * x_stride + index[row * index_stride + i]];
  }
}

/// A warp takes a row, 32 indices at a time. Of the lanes with one index, the first makes their additions in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_backward_kernel(const T* dy, int64_t dy_stride, const int64_t* index, int64_t index_stride, T* dx,
                           int64_t dx_stride, int64_t rows, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= rows) return;
  for (int64_t first = 0; first < cols; first += 32) {
    const bool inside = first + lane < cols;
    const int64_t place = inside ? index[row * index_stride + first + lane] : -1;
    const unsigned same = __match_any_sync(kAll, place);
    const bool adds = inside && __ffs(static_cast<int>(same)) - 1 == lane;
    if (adds) {
      T* const to = dx + row * dx_stride + place;
      Sum<T> sum = wide(*to);
      for (unsigned rest = same; rest != 0; rest &= rest - 1) {
        sum += wide(dy[row * dy_stride + first + __ffs(static_cast<int>(rest)) - 1]);
      }
      *to = narrow<T>(sum);
    }
    __syncwarp();
  }
}

}  // namespace

void check_index(ConstRows index, int64_t limit, const char* op) {
  const int64_t count = index.numel();
  if (count == 0) return;
  const Scratch<unsigned long long> first(1);
  check(cudaMemsetAsync(first.data(), 0xff, sizeof(unsigned long long), stream()), "check_index");
  check_kernel<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream()>>>(index_of(index), count,
                                                                                            limit, first.data());
  check_launch("check_index");
  unsigned long long found = 0;
  download(&found, first.data(), sizeof(found));
  if (found == ~0ull) return;
  const auto at = static_cast<int64_t>(found);
  int64_t value = 0;
  download(&value, static_cast<const int64_t*>(index.data) + at / index.cols * index.stride + at % index.cols,
           sizeof(value));
  throw_error<ShapeError>(op, ": index ", value, " is outside 0 to ", limit - 1);
}

void take_rows(ConstRows table, ConstRows index, Rows y) {
  if (y.numel() == 0) return;
  if (y.dtype != table.dtype) {
    require<ShapeError>(table.dtype == DType::f32 && size_of(y.dtype) == 2, "take_rows: cannot take ", y.dtype,
                        " from ", table.dtype);
    return y.dtype == DType::bf16 ? take_rounded<BFloat16>(table, index, y) : take_rounded<Float16>(table, index, y);
  }
  const auto item = static_cast<int64_t>(size_of(y.dtype));
  const auto launch = [&]<class Unit>(Unit) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(Unit));
    const auto bytes = [&](const auto& x) { return reinterpret_cast<uintptr_t>(x.data) | (x.stride * item); };
    if ((bytes(table) | bytes(y) | (y.cols * item)) % kSize != 0) return false;
    const int64_t units = y.cols * item / kSize;
    take_rows_kernel<Unit><<<grid_size(ceil_div(y.rows * units, kThreads)), kThreads, 0, stream()>>>(
        static_cast<const Unit*>(table.data), table.stride * item / kSize, index_of(index), static_cast<Unit*>(y.data),
        y.stride * item / kSize, y.rows, FastDivide(units));
    check_launch("take_rows");
    return true;
  };
  launch(uint4{}) || launch(uint32_t{}) || launch(uint16_t{}) || launch(uint8_t{});
}

/// dy has dtable's dtype, or 16 bits if dtable is f32.
void take_rows_backward(ConstRows dy, ConstRows index, Rows dtable) {
  const int64_t n = dy.rows;
  if (dy.numel() == 0) return;
  require<ShapeError>(std::max(n, dtable.rows) < (int64_t{1} << 31), "take_rows_backward: too many rows");
  const Scratch<uint32_t> memory((n <= kRankLimit ? 2 : 4) * n);
  uint32_t* const first = memory.data();
  const Sorted sorted = sort(index_of(index), n, dtable.rows, {first, first + n}, {first + 2 * n, first + 3 * n});
  with_float(dy.dtype, "take_rows_backward", [&](auto type) {
    using T = decltype(type);
    if (dy.dtype == dtable.dtype) return add_segments<T, T>(sorted, dy, dtable);
    if constexpr (kIs16Bit<T>) {
      if (dtable.dtype == DType::f32) return add_segments<T, float>(sorted, dy, dtable);
    }
    throw_error<ShapeError>("take_rows_backward: cannot add ", dy.dtype, " to ", dtable.dtype);
  });
}

void gather_last(ConstRows x, ConstRows index, Rows y) {
  if (y.numel() == 0) return;
  with_bits(y.dtype, [&](auto type) {
    using T = decltype(type);
    gather_kernel<T><<<grid_size(ceil_div(y.numel(), kThreads)), kThreads, 0, stream()>>>(
        static_cast<const T*>(x.data), x.stride, static_cast<const int64_t*>(index.data), index.stride,
        static_cast<T*>(y.data), y.stride, y.rows, y.cols);
  });
  check_launch("gather_last");
}

void gather_last_backward(ConstRows dy, ConstRows index, Rows dx) {
  if (dy.numel() == 0) return;
  with_float(dx.dtype, "gather_last_backward", [&](auto type) {
    using T = decltype(type);
    gather_backward_kernel<T><<<static_cast<unsigned>(ceil_div(dy.rows, kWarps)), kThreads, 0, stream()>>>(
        static_cast<const T*>(dy.data), dy.stride, static_cast<const int64_t*>(index.data), index.stride,
        static_cast<T*>(dx.data), dx.stride, dy.rows, dy.cols);
  });
  check_launch("gather_last_backward");
}

}  // namespace attend::cuda
