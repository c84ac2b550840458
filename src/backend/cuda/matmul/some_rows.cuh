#pragma once

#include "backend/cuda/matmul/finish.cuh"
#include "backend/cuda/matmul/some_rows.h"

// What the kernels for some rows share.
namespace attend::cuda {

inline constexpr int kMostProducts = 8;

struct SomeProduct {
  const BFloat16* weights;
  int64_t stride;
  const float* bias;
  Finish finish;
  int columns, first_block;
};
struct SomeProducts {
  SomeProduct all[kMostProducts];
  int count, rows, cols;
  bool early;     // WeightProductOptions
  const void* x;  // [rows, x_stride], bf16 or f32
  int64_t x_stride;
};

__device__ inline void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline uint32_t rounded_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// A single product with very many columns, such as logits: a CTA keeps all of x in shared memory. Which products these
/// are depends on the weights' shape alone. x is bf16, in rows of `cols` numbers at multiples of 16 bytes.
bool can_multiply_columns(int64_t cols, std::span<const WeightProduct> products);
void multiply_columns(const SomeProducts& products);

/// Products whose sums are split over the CTAs of a cluster (Hopper). Which products these are, and the order of their
/// sums, depends on the length of a row alone. x is bf16, or f32 where can_split_floats(), in rows at multiples of 16
/// bytes; only f32 rows can be normed.
struct SplitNorm {
  const float *weight = nullptr, *bias = nullptr;  // may be null
  float eps = 0;
  bool norms = false, centred = false;
};
bool can_split_rows(int64_t cols);
bool can_split_floats(int64_t cols, const RowNorm* norm);
void multiply_split(const SomeProducts& products, bool reads_floats, const SplitNorm& norm);

}  // namespace attend::cuda
