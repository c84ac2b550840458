#pragma once

#include "attend/tensor/tensor.h"

namespace attend {

// Elementwise ops. Operands broadcast as in NumPy: axes are aligned at the end, and size 1 stretches. On a GPU, an f32
// operand may meet one of 16 bits; the result then has 16 bits.
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
/// factor · x + shift.
Tensor scale(const Tensor& x, double factor, double shift = 0);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }

/// e^x and the natural logarithm.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);

}  // namespace attend
