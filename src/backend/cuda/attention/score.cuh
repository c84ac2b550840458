#pragma once

#include "backend/cuda/attention/problem.cuh"

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

/// RandomStream::settled() for a base in the device's memory.
__device__ __forceinline__ RandomStream settled(RandomStream random) {
  if (random.base != nullptr) random.stream += __ldg(reinterpret_cast<const unsigned long long*>(random.base));
  return random;
}

/// Philox4x32-10: the words of attend/base/random.h.
__device__ inline uint4 philox_words(RandomStream random, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(random.stream), c3 = static_cast<uint32_t>(random.stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(random.seed), k1 = static_cast<uint32_t>(random.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
  }
  return {c0, c1, c2, c3};
}

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

  /// The random words of query i and keys 4 · group … 4 · group + 3.
  __device__ uint4 words(int i, int group) const {
    const uint64_t row = (static_cast<uint64_t>(sequence.batch) * static_cast<uint64_t>(p.heads) + head) *
                             static_cast<uint64_t>(p.queries) +
                         static_cast<uint64_t>(sequence.q_begin + i);
    return philox_words(settled(p.random),
                        row * static_cast<uint64_t>((p.keys + 3) / 4) + static_cast<uint64_t>(group));
  }
  /// The factor by which dropout multiplies a weight, from its word.
  __device__ C keep(uint32_t word) const { return word >= p.threshold ? static_cast<C>(p.kept) : C{0}; }
};

__device__ __forceinline__ uint32_t word_of(const uint4& words, int at) {
  return at == 0 ? words.x : at == 1 ? words.y : at == 2 ? words.z : words.w;
}

}  // namespace attend::cuda::attention
