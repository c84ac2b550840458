#pragma once

#include "backend/cuda/attention/problem.cuh"
#include "backend/cuda/random.cuh"

// From q · k to the final score: scale, softcap, ALiBi, bias, and −inf where a query may not attend. Every operation is
// rounded on its own, so that all kernels give a score the same bits.
namespace attend::cuda::attention {

template <class C>
__device__ __forceinline__ C hidden_score() {
  return -static_cast<C>(INFINITY);
}

__device__ __forceinline__ float multiply_alone(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double multiply_alone(double a, double b) { return __dmul_rn(a, b); }

/// e^x for x ≤ 0: relative error 2^-22 in f32; results below 2^-126 are 0. NaN stays NaN.
__device__ __forceinline__ float weight_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
__device__ __forceinline__ double weight_exp(double x) { return exp(x); }

/// The scores of one head of one sequence.
template <class C>
struct Scorer {
  const Problem& p;
  const Sequence& sequence;
  int head;
  C scale, softcap, slope;

  __device__ Scorer(const Problem& problem, const Sequence& of, int h)
      : p(problem),
        sequence(of),
        head(h),
        scale(static_cast<C>(problem.scale)),
        softcap(static_cast<C>(problem.softcap)),
        slope(problem.alibi != nullptr ? load<C>(problem.alibi, h * problem.alibi_step, problem.q.dtype) : C{0}) {}

  /// tanh(scale · q·k / softcap)
  __device__ C capped(C raw) const { return tanh(multiply_alone(raw, scale) / softcap); }

  /// The score of query i and key j from q · k; −inf if the query may not attend to the key.
  __device__ C score(C raw, int i, int j) const {
    const Range seen = sequence.visible(i);
    if (i >= sequence.queries || j < seen.begin || j >= seen.end) return hidden_score<C>();
    const int q = sequence.q_begin + i, k = sequence.k_begin + j;
    if (p.mask.data != nullptr &&
        static_cast<const uint8_t*>(p.mask.data)[p.mask.offset(sequence.batch, head, q, k)] == 0)
      return hidden_score<C>();
    C x = multiply_alone(raw, scale);
    if (p.softcap > 0) x = multiply_alone(softcap, tanh(x / softcap));
    if (slope != 0) x = fma(-slope, static_cast<C>(abs(i + sequence.shift - j)), x);
    if (p.bias.data != nullptr) {
      const C bias = load<C>(p.bias.data, p.bias.offset(sequence.batch, head, q, k), p.q.dtype);
      x = bias == hidden_score<C>() ? bias : x + bias;
    }
    return x;
  }

  /// Bit e: whether dropout keeps the weight of query i and key 8 · group + e.
  __device__ uint32_t kept(int i, int group) const {
    const uint64_t row = (static_cast<uint64_t>(sequence.batch) * static_cast<uint64_t>(p.heads) + head) *
                             static_cast<uint64_t>(p.queries) +
                         static_cast<uint64_t>(sequence.q_begin + i);
    const uint64_t counter = row * p.drop_groups() + static_cast<uint64_t>(group);
    return kept_of_eight(philox_words<kDropRounds>(settled(p.random), counter), two_thresholds(p.threshold));
  }
  /// The same for the four keys from `key` on, a multiple of 4.
  __device__ uint32_t kept_of_four(int i, int key) const { return kept(i, key / 8) >> key % 8 & 15; }
  /// The factor by which dropout multiplies a weight, from its bit of kept().
  __device__ C keep(uint32_t bits, int e) const { return (bits >> e & 1) != 0 ? static_cast<C>(p.kept) : C{0}; }
};

}  // namespace attend::cuda::attention
