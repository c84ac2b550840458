#pragma once

#include "backend/cuda/attention/tensor.cuh"

// The options of attention on products in registers: scale, softcap, ALiBi, bias, mask, positions and dropout, with the
// meaning that score.cuh gives them.
namespace attend::cuda::attention {

/// A problem as the kernels for tensor cores take it.
struct HalfProblem {
  Problem p;
  HalfRows q, k, v;
  /// Scores are not just scale · q·k with a positive scale. All blocks then take the same way, so that the bits of a
  /// query do not depend on the others in its block.
  bool scored = false;
  bool paired_mask = false, paired_bias = false;  ///< two neighbouring keys may be read at once

  /// Weights are 2^(factor · score).
  __host__ __device__ float factor() const { return scored ? kLog2E : static_cast<float>(p.scale) * kLog2E; }
};

/// Whether elements 2 n and 2 n + 1 of every row may be read at once.
inline bool reads_pairs(const ConstView& view) {
  if (!view) return false;
  const auto even = [&](int64_t axis) { return view.shape[axis] <= 1 || view.strides[axis] % 2 == 0; };
  return view.strides[3] == 1 && view.shape[3] % 2 == 0 && even(0) && even(1) && even(2) &&
         reinterpret_cast<uintptr_t>(view.data) % (2 * size_of(view.dtype)) == 0;
}

inline HalfProblem half_problem_of(const AttentionProblem& problem) {
  HalfProblem half{.p = problem_of(problem)};
  half.q = half_rows_of(problem.q);
  half.k = half_rows_of(problem.k);
  half.v = half_rows_of(problem.v);
  half.scored =
      problem.mask || problem.bias || problem.alibi || problem.softcap > 0 || !(static_cast<float>(problem.scale) > 0);
  half.paired_mask = reads_pairs(problem.mask);
  half.paired_bias = reads_pairs(problem.bias);
  return half;
}

/// tanh(x): absolute error below 3e-7, relative error below 3e-6.
__device__ __forceinline__ float quick_tanh(float x) {
  const float squared = x * x;
  const float series = x * fmaf(squared, fmaf(squared, fmaf(squared, -17.f / 315, 2.f / 15), -1.f / 3), 1.f);
  const float large = 1 - __fdividef(2.f, 1 + exp2_fast(x * (2 * kLog2E)));
  return fabsf(x) < 0.125f ? series : fabsf(x) > 10 ? copysignf(1.f, x) : large;
}

/// The pairs of queries and keys of a thread's products. kFlipped: rows are keys and columns are queries, else rows are
/// queries and columns are keys. Element e of tile (m, n) is in row 16 m + 8 (e / 2) and column 8 n + e % 2, counted
/// from the thread's first row and column. Bit 4 n + e of a word of bits belongs to element e of tile n.
template <class T, bool kFlipped, int M, int N>
struct Pairing {
  static_assert(N <= 8 && (!kFlipped || M == 1));
  const HalfProblem& half;
  const Problem& p;
  const Sequence& sequence;
  int head, first_query, first_key;
  float slope;

  __device__ Pairing(const HalfProblem& of, const Sequence& s, int h, int query, int key)
      : half(of), p(of.p), sequence(s), head(h), first_query(query), first_key(key) {
    slope = p.alibi != nullptr ? unpack<T>(static_cast<const uint16_t*>(p.alibi)[h * p.alibi_step], 0) : 0.f;
  }

  __device__ __forceinline__ int query(int m, int n, int e) const {
    return first_query + (kFlipped ? 8 * n + e % 2 : 16 * m + e / 2 * 8);
  }
  __device__ __forceinline__ int key(int m, int n, int e) const {
    return first_key + (kFlipped ? 16 * m + e / 2 * 8 : 8 * n + e % 2);
  }
  /// Whether the positions of a query and a key allow it to attend.
  __device__ __forceinline__ bool sees(int m, int n, int e) const {
    const int i = query(m, n, e), j = key(m, n, e);
    const Range seen = sequence.visible(i);
    return i < sequence.queries && j >= seen.begin && j < seen.end;
  }

  /// Scores are −inf where positions hide the key.
  __device__ __forceinline__ void hide(Products<M, N>& scores) const {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[m][n][e] = sees(m, n, e) ? scores[m][n][e] : -INFINITY;
      }
    }
  }

  /// Offset of element e in a mask or a bias. Queries and keys beyond the end of the sequence are clamped to the last
  /// ones, so that the read stays inside the tensor; their scores are hidden by position.
  __device__ __forceinline__ int64_t place(const Pairs& of, int m, int n, int e) const {
    return min(query(m, n, e), sequence.queries - 1) * of.row + min(key(m, n, e), sequence.keys - 1) * of.key;
  }
  /// The same for elements e and e + 1 of neighbouring keys.
  __device__ __forceinline__ int64_t pair_place(const Pairs& of, int m, int n, int e) const {
    return min(query(m, n, e), sequence.queries - 1) * of.row + min(key(m, n, e), (sequence.keys - 1) & ~1);
  }

  /// The bits of the mask; all are set if there is none.
  __device__ __forceinline__ uint32_t mask_bits(int m) const {
    if (p.mask.data == nullptr) return ~0u;
    const uint8_t* mask = static_cast<const uint8_t*>(p.mask.data) +
                          p.mask.offset(sequence.batch, head, sequence.q_begin, sequence.k_begin);
    uint32_t bits = 0;
    if (!kFlipped && half.paired_mask && sequence.k_begin % 2 == 0) {
      uint32_t bytes[N][2];
#pragma unroll
      for (int n = 0; n < 2 * N; ++n)
        bytes[n / 2][n % 2] = *reinterpret_cast<const uint16_t*>(mask + pair_place(p.mask, m, n / 2, n % 2 * 2));
#pragma unroll
      for (int n = 0; n < 4 * N; ++n) {
        if ((bytes[n / 4][n % 4 / 2] & (n % 2 == 0 ? 0x00ffu : 0xff00u)) != 0) bits |= 1u << n;
      }
      return bits;
    }
    constexpr int kAhead = kFlipped ? 4 : 1;
#pragma unroll kAhead
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) bits |= (mask[place(p.mask, m, n, e)] != 0 ? 1u : 0u) << (4 * n + e);
    }
    return bits;
  }

  /// bias[n][r]: elements 2 r and 2 r + 1; 0 if there is no bias.
  __device__ __forceinline__ void read_bias(int m, uint32_t (&bias)[N][2]) const {
#pragma unroll
    for (int n = 0; n < N; ++n) bias[n][0] = bias[n][1] = 0;
    if (p.bias.data == nullptr) return;
    const uint16_t* from = static_cast<const uint16_t*>(p.bias.data) +
                           p.bias.offset(sequence.batch, head, sequence.q_begin, sequence.k_begin);
    const auto read_two = [&](int n, int r) {
      return from[place(p.bias, m, n, 2 * r)] | static_cast<uint32_t>(from[place(p.bias, m, n, 2 * r + 1)]) << 16;
    };
    if (kFlipped) {
#pragma unroll
      for (int n = 0; n < 2 * N; ++n) bias[n / 2][n % 2] = read_two(n / 2, n % 2);
    } else if (half.paired_bias && sequence.k_begin % 2 == 0) {
#pragma unroll
      for (int n = 0; n < 2 * N; ++n)
        bias[n / 2][n % 2] = *reinterpret_cast<const uint32_t*>(from + pair_place(p.bias, m, n / 2, n % 2 * 2));
    } else {
      uint32_t slow[2 * N];  // indexed at run time
#pragma unroll 1
      for (int n = 0; n < 2 * N; ++n) slow[n] = read_two(n / 2, n % 2);
#pragma unroll
      for (int n = 0; n < 2 * N; ++n) bias[n / 2][n % 2] = slow[n];
    }
  }

  /// scale · q·k, after softcap.
  __device__ __forceinline__ void scale(Products<M, N>& scores) const {
    const float factor = static_cast<float>(p.scale), cap = static_cast<float>(p.softcap);
    const bool capped = p.softcap > 0;
    const float inverse = capped ? 1 / cap : 0.f;
#pragma unroll
    for (auto& row : scores) {
#pragma unroll
      for (auto& tile : row) {
#pragma unroll
        for (float& x : tile) x *= factor;
        if (capped) {
#pragma unroll
          for (float& x : tile) x = cap * quick_tanh(x * inverse);
        }
      }
    }
  }

  /// The final score of a pair from its scaled score; −inf if the query may not attend to the key.
  __device__ __forceinline__ float score(float scaled, int m, int n, int e, const uint32_t (&bias)[N][2],
                                         uint32_t mask) const {
    const float distance = static_cast<float>(abs(query(m, n, e) + sequence.shift - key(m, n, e)));
    const float added = unpack<T>(bias[n][e / 2], e % 2), x = fmaf(-slope, distance, scaled);
    return sees(m, n, e) && (mask >> (4 * n + e) & 1) != 0 && added != -INFINITY ? x + added : -INFINITY;
  }

  /// Final scores from q · k.
  __device__ __forceinline__ void finish(Products<M, N>& scores) const {
    scale(scores);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      uint32_t bias[N][2];
      read_bias(m, bias);
      const uint32_t mask = mask_bits(m);
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[m][n][e] = score(scores[m][n][e], m, n, e, bias, mask);
      }
    }
  }

  /// The weights that dropout keeps; all bits are set if there is no dropout. All lanes call it. The lanes that need
  /// bits of the same eight keys share the work, in two tiles at a time: four lanes for two rows of queries, or, if
  /// kFlipped, eight lanes for two columns of queries and two groups of keys.
  __device__ __forceinline__ uint32_t kept_bits(int m) const {
    if (!p.drops) return ~0u;
    const int lane = static_cast<int>(threadIdx.x) % 32, turn = kFlipped ? lane / 4 : lane % 4;
    const uint64_t row =
        (static_cast<uint64_t>(sequence.batch) * static_cast<uint64_t>(p.heads) + static_cast<uint64_t>(head)) *
            static_cast<uint64_t>(p.queries) +
        static_cast<uint64_t>(sequence.q_begin +
                              (kFlipped ? first_query + turn % 2 + turn / 4 * 8 : query(m, 0, turn % 2 * 2)));
    const uint64_t groups = p.drop_groups();
    uint64_t counter = row * groups + static_cast<uint64_t>(first_key / 8 + turn / 2 % 2);
    const RandomStream random = settled(p.random);
    const uint32_t two = two_thresholds(p.threshold);
    uint32_t bits = 0;
#pragma unroll 2
    for (int n = 0; n < N; n += 2, counter += kFlipped ? 16 * groups : 2) {
      uint32_t all = kept_of_eight(philox_words<kDropRounds>(random, counter), two) << (turn % 4 * 8);
      all |= __shfl_xor_sync(~0u, all, kFlipped ? 4 : 1);
      all |= __shfl_xor_sync(~0u, all, kFlipped ? 8 : 2);
      // Not flipped: bytes 0 and 1 belong to the rows of the first tile, 2 and 3 to those of the second. Flipped: `all`
      // has the bytes of the four elements of the first tile in the lower half of the warp, of the second in the upper.
      const uint32_t other = kFlipped ? __shfl_xor_sync(~0u, all, 16) : all >> 16;
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        uint32_t four;
        if constexpr (kFlipped) {
          four = (tile == turn / 4 ? all : other) >> turn & 0x01010101;
          four = (four | four >> 7 | four >> 14 | four >> 21) & 15;
        } else {
          four = (tile == 0 ? all : other) >> (2 * turn);
          four = (four & 3) | (four >> 6 & 12);
        }
        if (n + tile < N) bits |= four << (4 * (n + tile));
      }
    }
    return bits;
  }
};

}  // namespace attend::cuda::attention
