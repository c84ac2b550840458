#include <cuda_bf16.h>

#include <algorithm>
#include <type_traits>

#include "backend/cuda/matmul/few_rows.h"
#include "backend/cuda/matmul/finish.cuh"
#include "backend/cuda/matmul/row_norm.cuh"
#include "backend/cuda/overlap.cuh"

// A team of threads, a warp or a block of four, computes the dot products of up to kRows rows of x with kColumns rows
// of weights. Thread t of a team of T takes the pieces t, t + T, t + 2T, … of the rows; a piece is 8 floats or 16
// bytes. The sums of kSumGroup members are added in their order, the groups of a warp are added in theirs, and then the
// warps. So the order of a sum depends on the length of the rows alone.
namespace attend::cuda {
namespace {

constexpr int kThreads = 128, kWarp = 32, kWarps = kThreads / kWarp;
static_assert(kThreads == kLongTeam);
constexpr int kMostProducts = 8;

struct DotProduct {
  const void* weights;
  int64_t weight_stride;
  const float* scales;  // of i8 weights
  const float* bias;
  Finish finish;
  int columns;
  int first_block;  // of this product
};
struct DotProducts {
  DotProduct all[kMostProducts];
  int count;
};

/// x as floats, or as rounded bytes with a factor per row.
template <class T>
struct Input {
  const T* data;
  int64_t stride;
  const float* factors;
  int rows, cols;
};

template <class Weight>
struct Format;
template <>
struct Format<float> {
  using X = float;
  using Sum = float;
  static constexpr int kPiece = 8;
};
template <>
struct Format<__nv_bfloat16> : Format<float> {};
template <>
struct Format<int8_t> {
  using X = int8_t;
  using Sum = int;
  static constexpr int kPiece = 16;
};

__device__ Floats load_piece(const float* from) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(from)),
               high = __ldg(reinterpret_cast<const float4*>(from) + 1);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ Floats widened(const Floats& piece) { return piece; }
__device__ int4 widened(const int4& piece) { return piece; }
__device__ Floats widened(const uint4& words) {
  const auto low = [](unsigned word) { return __uint_as_float(word << 16); };
  const auto high = [](unsigned word) { return __uint_as_float(word & 0xffff0000u); };
  return {{low(words.x), high(words.x), low(words.y), high(words.y), low(words.z), high(words.z), low(words.w),
           high(words.w)}};
}
__device__ uint4 load_piece(const __nv_bfloat16* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }
__device__ int4 load_piece(const int8_t* from) { return __ldg(reinterpret_cast<const int4*>(from)); }

/// The first `count` values of a piece at any address; the rest is 0.
__device__ Floats load_values(const float* from, int count) {
  Floats piece;
#pragma unroll
  for (int i = 0; i < 8; ++i) piece.at[i] = i < count ? from[i] : 0.0f;
  return piece;
}
__device__ Floats load_values(const __nv_bfloat16* from, int count) {
  Floats piece;
#pragma unroll
  for (int i = 0; i < 8; ++i) piece.at[i] = i < count ? __bfloat162float(from[i]) : 0.0f;
  return piece;
}
__device__ int4 load_values(const int8_t* from, int count) {
  int words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned word = 0;
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) {
      if (4 * i + byte < count) word |= static_cast<unsigned>(static_cast<uint8_t>(from[4 * i + byte])) << (8 * byte);
    }
    words[i] = static_cast<int>(word);
  }
  return make_int4(words[0], words[1], words[2], words[3]);
}

__device__ float add_products(const Floats& w, const Floats& x, float sum) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(w.at[i], x.at[i], sum);
  return sum;
}
__device__ int add_products(const int4& w, const int4& x, int sum) {
  return __dp4a(w.w, x.w, __dp4a(w.z, x.z, __dp4a(w.y, x.y, __dp4a(w.x, x.x, sum))));
}

__device__ float finished(float sum, const Input<float>&, const DotProduct& product, int, int, float bias) {
  return product.bias != nullptr ? sum + bias : sum;
}
/// The same rounding as on the CPU: int8_finished() in backend/cpu/int8.
__device__ float finished(int sum, const Input<int8_t>& x, const DotProduct& product, int row, int column, float bias) {
  return fmaf(__int2float_rn(sum), __fmul_rn(x.factors[row], product.scales[column]), bias);
}

/// Starts the copy of the first `count` floats, a multiple of 4, to shared memory.
__device__ void start_copy(float* to, const float* from, int count) {
  if (from == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < count; i += kThreads * 4) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to + i))),
        "l"(from + i));
  }
}

/// One row alone leaves room on a multiprocessor for the next kernel, which then loads its weights early.
template <int kRows, bool kLong, bool kNormed>
constexpr int kBlocksTogether = kRows == 1 && !(kLong && kNormed) ? 6 : 1;

template <class Weight, int kRows, int kColumns, bool kLong, bool kAligned, bool kNormed>
__global__ void __launch_bounds__(kThreads, kBlocksTogether<kRows, kLong, kNormed>)
    dots_kernel(Input<typename Format<Weight>::X> x, DotProducts products, DotNorm norm) {
  let_next_start();
  using X = typename Format<Weight>::X;
  using Sum = typename Format<Weight>::Sum;
  constexpr int kPiece = Format<Weight>::kPiece, kTeam = kLong ? kThreads : kWarp, kTeams = kThreads / kTeam;
  int which = 0;
  while (which + 1 < products.count && static_cast<int>(blockIdx.x) >= products.all[which + 1].first_block) ++which;
  const DotProduct& product = products.all[which];
  const int team = static_cast<int>(threadIdx.x) / kTeam, member = static_cast<int>(threadIdx.x) % kTeam;
  const int column = ((static_cast<int>(blockIdx.x) - product.first_block) * kTeams + team) * kColumns;
  const int pieces = kAligned ? x.cols / kPiece : (x.cols + kPiece - 1) / kPiece;

  const Weight* weights[kColumns];
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    weights[j] = static_cast<const Weight*>(product.weights) +
                 static_cast<int64_t>(min(column + j, product.columns - 1)) * product.weight_stride;
  }
  constexpr int kAhead = kAligned && kRows <= 2 ? 3 : 0;
  __shared__ __align__(16) float norm_weights[2][kNormed && kAhead > 0 ? kAhead * kTeam * 8 : 4];
  if constexpr (kNormed && kAhead > 0) {
    const int count = min(kAhead * kTeam * 8, x.cols);
    start_copy(norm_weights[0], norm.weight, count);
    start_copy(norm_weights[1], norm.bias, count);
  }
  for (int first = static_cast<int>(blockIdx.y) * kRows; first < x.rows; first += static_cast<int>(gridDim.y) * kRows) {
    const X* rows[kRows];
    Sum sums[kColumns][kRows];
    // The first weights, and all else that memory has to send, are on their way before anything is computed.
    decltype(load_piece(weights[0])) first_held[kAhead > 0 ? kAhead : 1][kColumns];
    if constexpr (kAhead > 0) {
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const int at = min(member + n * kTeam, pieces - 1) * kPiece;
#pragma unroll
        for (int j = 0; j < kColumns; ++j) first_held[n][j] = load_piece(weights[j] + at);
      }
    }
    const int own_column = min(column + member / kRows, product.columns - 1),
              own_row = min(first + member % kRows, x.rows - 1);
    const bool puts =
        member < kColumns * kRows && column + member / kRows < product.columns && first + member % kRows < x.rows;
    const float bias = puts && product.bias != nullptr ? product.bias[own_column] : 0.0f;
    wait_for_earlier();
    const Finish::Ahead ahead = puts ? product.finish.ahead(own_row, own_column) : Finish::Ahead{};
    Statistics statistics[kNormed ? kRows : 1];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      rows[i] = x.data + static_cast<int64_t>(min(first + i, x.rows - 1)) * x.stride;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[j][i] = 0;
    }
    const auto add_values = [&](int piece) {
      const int at = piece * kPiece, count = x.cols - at;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const auto values = load_values(rows[i] + at, count);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          sums[j][i] = add_products(load_values(weights[j] + at, count), values, sums[j][i]);
        }
      }
    };
    if constexpr (kAligned) {
      const auto add_piece = [&](int at, const auto& held) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          auto values = read_piece(rows[i] + at);
          if constexpr (kNormed) {
            values = normed(values, statistics[i], norm.weight, norm.bias, at,
                            [](const float* from) { return load_piece(from); });
          }
#pragma unroll
          for (int j = 0; j < kColumns; ++j) sums[j][i] = add_products(widened(held[j]), values, sums[j][i]);
        }
      };
      if constexpr (kNormed && kAhead == 0) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) statistics[i] = statistics_of(rows[i], x.cols, norm);
      }
      if constexpr (kAhead > 0) {
        decltype(read_piece(rows[0])) values[kRows][kAhead];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int n = 0; n < kAhead; ++n) {
            values[i][n] = read_piece(rows[i] + min(member + n * kTeam, pieces - 1) * kPiece);
          }
        }
        if constexpr (kNormed) {
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            if constexpr (kLong) {
              statistics[i] = statistics_of(rows[i], x.cols, norm);
            } else {
              statistics[i] = statistics_of(rows[i], x.cols, norm, values[i]);
            }
          }
          asm volatile("cp.async.wait_all;" ::: "memory");
          __syncthreads();
        }
#pragma unroll
        for (int n = 0; n < kAhead; ++n) {
          const int piece = member + n * kTeam;
          if (piece >= pieces) continue;
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            if constexpr (kNormed) {
              values[i][n] = normed(values[i][n], statistics[i], norm.weight != nullptr ? norm_weights[0] : nullptr,
                                    norm.bias != nullptr ? norm_weights[1] : nullptr, piece * kPiece,
                                    [](const float* from) { return read_piece(from); });
            }
#pragma unroll
            for (int j = 0; j < kColumns; ++j) {
              sums[j][i] = add_products(widened(first_held[n][j]), values[i][n], sums[j][i]);
            }
          }
        }
      }
#pragma unroll(kRows <= 2 ? 4 : 2)
      for (int piece = member + kAhead * kTeam; piece < pieces; piece += kTeam) {
        const int at = piece * kPiece;
        decltype(load_piece(weights[0])) held[kColumns];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) held[j] = load_piece(weights[j] + at);
        add_piece(at, held);
      }
      if (x.cols % kPiece != 0 && pieces % kTeam == member) add_values(pieces);
    } else {
      for (int piece = member; piece < pieces; piece += kTeam) add_values(piece);
    }

    __shared__ Sum own_parts[kWarps][kColumns * kRows][kWarp + 1], parts[kWarps][kColumns * kRows];
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) own_parts[warp][j * kRows + i][lane] = sums[j][i];
    }
    __syncwarp();
    Sum sum = 0;
    if (lane < kColumns * kRows) {
      const Sum* all = own_parts[warp][lane];
#pragma unroll
      for (int group = 0; group < kWarp; group += kSumGroup) {
        Sum group_sum = all[group];
#pragma unroll
        for (int other = 1; other < kSumGroup; ++other) group_sum += all[group + other];
        sum = group == 0 ? group_sum : sum + group_sum;
      }
    }
    if constexpr (kLong) {
      if (lane < kColumns * kRows) parts[warp][lane] = sum;
      __syncthreads();
    }
    if (member < kColumns * kRows) {
      const int j = column + member / kRows, i = first + member % kRows;
      if constexpr (kLong) {
        sum = parts[0][member];
#pragma unroll
        for (int other = 1; other < kWarps; ++other) sum += parts[other][member];
      }
      if (j < product.columns && i < x.rows) {
        product.finish.put(i, j, finished(sum, x, product, i, j, bias), ahead);
      }
    }
    if constexpr (kLong) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }
}

/// The norm of a row by a warp, with the bits of dots_kernel.
__global__ void __launch_bounds__(kThreads) norm_kernel(Input<float> x, DotNorm norm, float* y, int64_t y_stride) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= x.rows) return;
  const float* from = x.data + row * x.stride;
  const Statistics statistics = statistics_of(from, x.cols, norm);
  for (int at = static_cast<int>(threadIdx.x) % kWarp * 8; at < x.cols; at += kWarp * 8) {
    const Floats values = normed(read_piece(from + at), statistics, norm.weight, norm.bias, at,
                                 [](const float* of) { return read_piece(of); });
#pragma unroll
    for (int i = 0; i < 8; ++i) y[row * y_stride + at + i] = values.at[i];
  }
}

struct DotOptions {
  const DotNorm* norm = nullptr;
  bool early = false;  // WeightProductOptions
};

bool is_aligned(const void* data, int64_t stride_bytes) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

template <class Weight, int kRows, int kColumns, bool kLong>
void launch(const Input<typename Format<Weight>::X>& x, std::span<const WeightProduct> products,
            const DotOptions& options) {
  constexpr int kPerBlock = (kLong ? 1 : kWarps) * kColumns;
  DotProducts held{};
  bool aligned =
      x.cols >= Format<Weight>::kPiece && is_aligned(x.data, x.stride * static_cast<int64_t>(sizeof *x.data));
  int blocks = 0;
  for (const WeightProduct& product : products) {
    const ConstRows& values = product.weight.values;
    if (product.y.cols == 0) continue;
    aligned = aligned && is_aligned(values.data, values.stride * static_cast<int64_t>(sizeof(Weight)));
    held.all[held.count++] = {.weights = values.data,
                              .weight_stride = values.stride,
                              .scales = product.weight.scales,
                              .bias = static_cast<const float*>(product.bias.data),
                              .finish = Finish::of(product),
                              .columns = static_cast<int>(product.y.cols),
                              .first_block = blocks};
    blocks += static_cast<int>((product.y.cols + kPerBlock - 1) / kPerBlock);
  }
  if (blocks == 0) return;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min((x.rows + kRows - 1) / kRows, 65535)));
  const auto run = [&](auto kernel) {
    const DotNorm norm = options.norm != nullptr ? *options.norm : DotNorm{};
    launch_overlapped("weights.multiply", kernel, {.grid = grid, .threads = kThreads, .overlaps = options.early}, x,
                      held, norm);
  };
  if constexpr (!std::is_same_v<Weight, int8_t>) {
    if (options.norm != nullptr) return run(dots_kernel<Weight, kRows, kColumns, kLong, true, true>);
  }
  aligned ? run(dots_kernel<Weight, kRows, kColumns, kLong, true, false>)
          : run(dots_kernel<Weight, kRows, kColumns, kLong, false, false>);
}

/// More rows share the loads of more columns.
template <class Weight, bool kLong>
void launch_rows(const Input<typename Format<Weight>::X>& x, std::span<const WeightProduct> products,
                 const DotOptions& options) {
  if (x.rows == 1) return launch < Weight, 1, sizeof(Weight) == 4 ? 1 : 2, kLong > (x, products, options);
  if (x.rows == 2) return launch<Weight, 2, 1, kLong>(x, products, options);
  if (x.rows <= 4) return launch<Weight, 4, 2, kLong>(x, products, options);
  launch<Weight, 8, 4, kLong>(x, products, options);
}

template <class Weight>
void launch_all(const Input<typename Format<Weight>::X>& x, std::span<const WeightProduct> products,
                const DotOptions& options) {
  while (!products.empty()) {
    const size_t count = std::min<size_t>(products.size(), kMostProducts);
    if (x.cols >= kLongRow) {
      launch_rows<Weight, true>(x, products.first(count), options);
    } else {
      launch_rows<Weight, false>(x, products.first(count), options);
    }
    products = products.subspan(count);
  }
}

Input<float> input_of(const ConstRows& x) {
  return {static_cast<const float*>(x.data), x.stride, nullptr, static_cast<int>(x.rows), static_cast<int>(x.cols)};
}

}  // namespace

void multiply_few(ConstRows x, std::span<const WeightProduct> products, bool early) {
  const DotOptions options{.early = early};
  if (products[0].weight.values.dtype == DType::bf16) return launch_all<__nv_bfloat16>(input_of(x), products, options);
  launch_all<float>(input_of(x), products, options);
}

bool can_norm_few(ConstRows x, std::span<const WeightProduct> products, const RowNorm& norm) {
  bool aligned = x.cols % 8 == 0 && is_aligned(x.data, x.stride * 4) && is_aligned(norm.weight.data, 0) &&
                 is_aligned(norm.bias.data, 0);
  for (const WeightProduct& product : products) {
    const ConstRows& values = product.weight.values;
    aligned = aligned && values.dtype != DType::i8 &&
              is_aligned(values.data, values.stride * static_cast<int64_t>(size_of(values.dtype)));
  }
  return aligned && x.cols > 0;
}

void multiply_few(ConstRows x, std::span<const WeightProduct> products, const RowNorm& norm, bool early) {
  const DotNorm held = dot_norm(norm);
  const DotOptions options{.norm = &held, .early = early};
  if (products[0].weight.values.dtype == DType::bf16) return launch_all<__nv_bfloat16>(input_of(x), products, options);
  launch_all<float>(input_of(x), products, options);
}

void norm_few(ConstRows x, const RowNorm& norm, Rows y) {
  norm_kernel<<<static_cast<unsigned>((x.rows + kWarps - 1) / kWarps), kThreads, 0, stream()>>>(
      input_of(x), dot_norm(norm), static_cast<float*>(y.data), y.stride);
  check_launch("weights.multiply");
}

void multiply_few(const QuantizedRows& x, std::span<const WeightProduct> products, bool early) {
  launch_all<int8_t>({x.values, x.stride, x.factors, static_cast<int>(x.rows), static_cast<int>(x.cols)}, products,
                     {.early = early});
}

}  // namespace attend::cuda
