#pragma once

#include "backend/kernels.h"

// Norms of rows of x inside the kernels for few rows. A warp computes the statistics of a row; all kernels give the
// same bits.
namespace attend::cuda {

inline constexpr int kNormWarp = 32;

/// A norm of the rows of x while they are read.
struct DotNorm {
  const float *weight, *bias;  // may be null
  float eps;
  bool centred;  // layer norm, otherwise RMS norm
};

inline DotNorm dot_norm(const RowNorm& norm) {
  return {static_cast<const float*>(norm.weight.data), static_cast<const float*>(norm.bias.data),
          static_cast<float>(norm.eps), !norm.rms};
}

/// Eight floats.
struct Floats {
  float at[8];
};

/// Reads eight floats from shared memory, or of x, which an earlier kernel may still have been writing at the start.
__device__ inline Floats read_piece(const float* from) {
  const float4 low = *reinterpret_cast<const float4*>(from), high = *(reinterpret_cast<const float4*>(from) + 1);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ inline int4 read_piece(const int8_t* from) { return *reinterpret_cast<const int4*>(from); }

template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int distance = kNormWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

/// The mean and 1 / deviation of a row, computed by each warp for itself. The row is aligned, and its first pieces are
/// in registers: lane l has the pieces l, l + 32, …
struct Statistics {
  float mean = 0, rstd = 0;
};
template <int kHeld>
__device__ Statistics statistics_of(const float* row, int cols, const DotNorm& norm, const Floats (&first)[kHeld]) {
  const int lane = static_cast<int>(threadIdx.x) % kNormWarp, pieces = cols / 8;
  const auto sum_over = [&](auto add) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      if (lane + n * kNormWarp < pieces) sum = add(sum, first[n]);
    }
    for (int piece = lane + kHeld * kNormWarp; piece < pieces; piece += kNormWarp)
      sum = add(sum, read_piece(row + piece * 8));
    return warp_sum(sum);
  };
  Statistics result;
  if (norm.centred) {
    const float sum = sum_over([](float all, const Floats& values) {
#pragma unroll
      for (int i = 0; i < 8; ++i) all += values.at[i];
      return all;
    });
    result.mean = sum / static_cast<float>(cols);
  }
  const float squares = sum_over([&](float all, const Floats& values) {
#pragma unroll
    for (int i = 0; i < 8; ++i) all = fmaf(values.at[i] - result.mean, values.at[i] - result.mean, all);
    return all;
  });
  result.rstd = 1.0f / sqrtf(squares / static_cast<float>(cols) + norm.eps);
  return result;
}
__device__ inline Statistics statistics_of(const float* row, int cols, const DotNorm& norm) {
  constexpr int kHeld = 3;
  Floats first[kHeld];
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    first[n] = read_piece(row + min(static_cast<int>(threadIdx.x) % kNormWarp + n * kNormWarp, cols / 8 - 1) * 8);
  }
  return statistics_of(row, cols, norm, first);
}

/// The norm of a piece, with its weights read by `read`. Every operation is rounded on its own, so that all kernels
/// give the same bits.
template <class Read>
__device__ Floats normed(Floats values, const Statistics& statistics, const float* weights, const float* biases, int at,
                         Read read) {
#pragma unroll
  for (int i = 0; i < 8; ++i) values.at[i] = __fmul_rn(values.at[i] - statistics.mean, statistics.rstd);
  if (weights != nullptr) {
    const Floats weight = read(weights + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) values.at[i] = __fmul_rn(values.at[i], weight.at[i]);
  }
  if (biases != nullptr) {
    const Floats bias = read(biases + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) values.at[i] = __fadd_rn(values.at[i], bias.at[i]);
  }
  return values;
}

}  // namespace attend::cuda
