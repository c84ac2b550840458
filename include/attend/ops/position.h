#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// The fixed table of "Attention Is All You Need" §3.5: [length, dim] with sin(pos / base^(2i/dim)) at feature 2i and
/// the cosine at feature 2i + 1.
Tensor sinusoidal_positions(int64_t length, int64_t dim, double base = 10000.0, DType dtype = DType::f32);

struct RopeOptions {
  double base = 10000.0;
  int64_t offset = 0;        ///< position of the first row; in generation, the length of the cache
  bool interleaved = false;  ///< pairs are features (2i, 2i + 1) instead of (i, i + dims/2) as in Llama
  int64_t dims = 0;          ///< number of leading features to rotate; 0 = all
  Tensor frequencies;        ///< f64 [dims/2], for scaled RoPE; empty: computed from `base`
  Tensor positions;          ///< i64 [length]; empty: offset, offset + 1, …
};
/// Rotary position embedding (RoPE): rotates each pair of features of x[…, length, dim] by position · frequency.
Tensor rope(const Tensor& x, const RopeOptions& options = {});

/// ALiBi's slopes, [heads] (Press et al. 2022): a geometric sequence, interpolated if `heads` is not a power of two.
Tensor alibi_slopes(int64_t heads, DType dtype = DType::f32);

}  // namespace attend
