#pragma once

#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/tensor.h"
#include "backend/cuda/attention/tensor_score.cuh"

// From products q · k and dy · v to weights and gradients of scores, in registers.
namespace attend::cuda::attention {

struct HalfBackwardCall {
  HalfProblem half;
  HalfRows y, dy, dq, dk, dv;
  const float* lse = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  float* exponents = nullptr;  ///< [batch, heads, queries]: lse · log2 e, or +inf for a query that sees no key
  float* deltas = nullptr;     ///< the same shape: Σ dy · y
  int blocks = 0;              ///< blocks of keys per batch entry
  unsigned tasks = 0;          ///< of the kernel, which its CTAs take in turn
  BiasGradient bias;
  GradientMarks marks;
};

/// lse · log2 e and delta of the queries of a thread's products.
template <bool kFlipped, int N>
struct Statistics {
  const float *exponents = nullptr, *deltas = nullptr;  ///< of the thread's first column, if columns are queries
  float exponent[2], delta[2];                          ///< of the thread's two rows, if rows are queries

  __device__ __forceinline__ float exponent_of(int n, int e) const {
    return kFlipped ? exponents[8 * n + e % 2] : exponent[e / 2];
  }
  __device__ __forceinline__ float delta_of(int n, int e) const {
    return kFlipped ? deltas[8 * n + e % 2] : delta[e / 2];
  }
};

/// Replaces q · k by weights and dy · v by P ∘ (dP − delta), Dao et al. 2022 §B.2, where nothing is hidden and no
/// option is in use.
template <bool kFlipped, int N>
__device__ __forceinline__ void plain_gradients(float factor, const Statistics<kFlipped, N>& of, Products<1, N>& scores,
                                                Products<1, N>& upstream) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float weight = exp2_fast(fmaf(scores[0][n][e], factor, -of.exponent_of(n, e)));
      scores[0][n][e] = weight;
      upstream[0][n][e] = weight * (upstream[0][n][e] - of.delta_of(n, e));
    }
  }
}

/// The same with every option. kBias: replaces q · k by the gradients of the bias instead of the weights. Weights that
/// dropout keeps are not yet divided by 1 − dropout.
template <bool kBias, class T, bool kFlipped, int N>
__device__ __forceinline__ void full_gradients(const Pairing<T, kFlipped, 1, N>& pairs,
                                               const Statistics<kFlipped, N>& of, Products<1, N>& scores,
                                               Products<1, N>& upstream) {
  const Problem& p = pairs.p;
  const bool scored = pairs.half.scored;
  const float factor = pairs.half.factor(), share = static_cast<float>(p.kept);
  const float inverse_cap = p.softcap > 0 ? 1 / static_cast<float>(p.softcap) : 0.f;
  const uint32_t kept = pairs.kept_bits(0);
  uint32_t bias[N][2], mask = ~0u;
  if (scored) {
    pairs.read_bias(0, bias);
    mask = pairs.mask_bits(0);
    pairs.scale(scores);
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float scaled = scores[0][n][e];
      float score = scaled;
      if (scored)
        score = pairs.score(scaled, 0, n, e, bias, mask);
      else if (!pairs.sees(0, n, e))
        score = -INFINITY;
      const bool hidden = score == -INFINITY, keeps = (kept >> (4 * n + e) & 1) != 0;
      const float weight = exp2_fast(fmaf(score, factor, -of.exponent_of(n, e)));
      const float after = weight * ((keeps ? upstream[0][n][e] * share : 0.f) - of.delta_of(n, e));
      const float t = scaled * inverse_cap;
      upstream[0][n][e] = hidden ? 0.f : after * fmaf(-t, t, 1.f);
      scores[0][n][e] = hidden ? 0.f : kBias ? after : keeps ? weight : 0.f;
    }
  }
}

}  // namespace attend::cuda::attention
