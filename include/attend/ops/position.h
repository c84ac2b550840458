#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

/// The fixed table of "Attention Is All You Need" §3.5: [length, dim] with sin(pos / base^(2i/dim)) at 2i, cos at 2i+1.
Tensor sinusoidal_positions(int64_t length, int64_t dim, double base = 10000.0, DType dtype = DType::f32);

struct RopeOptions {
  double base = 10000.0;
  int64_t offset = 0;        ///< position of the first row: the length of the cache while generating
  bool interleaved = false;  ///< pairs are neighbours (2i, 2i+1) instead of (i, i + dim/2) as in Llama
  int64_t dims = 0;          ///< how many leading features turn; 0 = all
  Tensor frequencies;        ///< f64 [dims/2], replaces base's (scaled rotary); empty: from base
  Tensor positions;          ///< i64 [length], replaces offset + row; empty: consecutive
};
/// Rotary positions: each pair of features of x[…, length, dim] turned by position · frequency.
Tensor rope(const Tensor& x, const RopeOptions& options = {});

/// ALiBi's slopes for a number of heads (Press et al. 2022): a geometric sequence, interpolated where heads is no power
/// of two.
Tensor alibi_slopes(int64_t heads, DType dtype = DType::f32);

}  // namespace attend
