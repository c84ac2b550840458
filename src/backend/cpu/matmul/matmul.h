#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/base/dtype.h"

namespace attend::cpu {

/// One matrix product: c[m, n] = a[m, k] · b[k, n] + bias, or added to what c holds. Turned, it is cᵀ that is written
/// and the bias is one of rows; then n is at most 256, a is contiguous along k and nothing is added.
template <class T>
struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_row = 0, a_step = 0;  ///< a(i, p) = a[i · a_row + p · a_step]
  const T* b = nullptr;
  int64_t b_step = 0, b_col = 0;  ///< b(p, j) = b[p · b_step + j · b_col]
  T* c = nullptr;
  int64_t c_row = 0;        ///< c(i, j) = c[i · c_row + j], turned c[j · c_row + i]
  const T* bias = nullptr;  ///< n of them, turned m, or none
  bool accumulate = false;
  bool turned = false;
  bool bf16 = false;                 ///< round a and b to bf16
  bool invariant = false;            ///< c(i, j) has the same bits whatever m and n, turned or not
  const BFloat16* a_bf16 = nullptr;  ///< stands in for a where turned
  const BFloat16* b_bf16 = nullptr;  ///< stands in for b, with b_step 1
};

/// [0, total) cut into equal parts of at most `largest`, each a multiple of `unit` but the last.
struct Blocks {
  int64_t total = 0, size = 1, count = 0;
  Blocks(int64_t all, int64_t largest, int64_t unit) : total(all) {
    const int64_t wanted = std::max<int64_t>(1, (all + largest - 1) / largest);
    size = std::max<int64_t>(1, ((all + wanted - 1) / wanted + unit - 1) / unit * unit);
    count = (all + size - 1) / size;
  }
  int64_t begin(int64_t index) const { return index * size; }
  int64_t end(int64_t index) const { return std::min((index + 1) * size, total); }
};

/// The product, however it is done.
void multiply_f32(const MatrixProduct<float>& product);

/// The product by bf16 instructions; false, with nothing done, where there are none or it is too small to gain by them.
/// Where the bits must be invariant, m does not count.
bool multiply_bf16(const MatrixProduct<float>& product);

}  // namespace attend::cpu
