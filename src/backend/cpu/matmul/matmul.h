#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/base/dtype.h"

namespace attend::cpu {

/// One matrix product: c[m, n] = a[m, k] · b[k, n] + bias, or c += a · b + bias. If `turned`, writes cᵀ and adds
/// bias[i] to row i of c; this requires n ≤ 256, a contiguous along k, and no accumulation.
template <class T>
struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_row = 0, a_step = 0;  ///< a(i, p) = a[i · a_row + p · a_step]
  const T* b = nullptr;
  int64_t b_step = 0, b_col = 0;  ///< b(p, j) = b[p · b_step + j · b_col]
  T* c = nullptr;
  int64_t c_row = 0;        ///< c(i, j) = c[i · c_row + j]; if turned, c[j · c_row + i]
  const T* bias = nullptr;  ///< n elements, if turned m elements; null: no bias
  bool accumulate = false;
  bool turned = false;
  bool bf16 = false;                 ///< round a and b to bf16
  bool invariant = false;            ///< the bits of c(i, j) do not depend on m, n or `turned`
  const BFloat16* a_bf16 = nullptr;  ///< replaces a if not null; requires `turned`
  const BFloat16* b_bf16 = nullptr;  ///< replaces b if not null; requires b_step = 1
};

/// [0, total) cut into equal parts of at most `largest`; all parts but the last are multiples of `unit`.
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

/// Computes the product with the fastest suitable kernel.
void multiply_f32(const MatrixProduct<float>& product);

/// Computes the product with bf16 instructions. Returns false, without computing anything, if there are none or if the
/// product is too small to gain from them. If `invariant`, the decision does not depend on m.
bool multiply_bf16(const MatrixProduct<float>& product);

}  // namespace attend::cpu
