#pragma once

#include "backend/cuda/reduce.cuh"
#include "backend/kernels.h"

// The functions of UnaryKind and their slopes, one element at a time.
namespace attend::cuda {

// Where f is x times a factor that vanishes at −∞, x is clamped at a point below which the product rounds to ±0, so
// that −∞ gives 0 rather than NaN. The clamps keep NaN.
template <class S>
constexpr S kNormalTail = sizeof(S) == 8 ? S{40} : S{14};
template <class S>
constexpr S kLogisticTail = sizeof(S) == 8 ? S{709} : S{88};

template <class S>
__device__ S above(S x, S bound) {
  return x < -bound ? -bound : x;
}
template <class S>
__device__ S within(S x, S bound) {
  return x > bound ? bound : above(x, bound);
}

/// T is the stored type: 16-bit types allow an approximate division.
template <class T>
__device__ Sum<T> divide(Sum<T> a, Sum<T> b) {
  if constexpr (kIs16Bit<T>)
    return __fdividef(a, b);
  else
    return a / b;
}

/// e^x for x <= 0, exactly 0 where the result would not be a normal number.
template <class T>
__device__ Sum<T> exp_below(Sum<T> x) {
  const Sum<T> lowest = sizeof(Sum<T>) == 8 ? Sum<T>(-708) : Sum<T>(-87.3);
  return x < lowest ? Sum<T>{0} : exponential<T>(x);
}

/// σ(x) and 1 − σ(x). Both are computed from e^−|x|, so that a small value keeps all its digits.
template <class S>
struct Logistic {
  S value, rest;
};
template <class T, class S = Sum<T>>
__device__ Logistic<S> logistic(S x) {
  const S e = exp_below<T>(-abs(x));
  const S larger = divide<T>(S{1}, S{1} + e), smaller = e * larger;
  return x < 0 ? Logistic<S>{smaller, larger} : Logistic<S>{larger, smaller};
}

/// The lower tail of the normal distribution at a = |x|, a clamped where the tail becomes 0.
template <class S>
struct NormalTail {
  S a, cdf, slope;  ///< Φ(−a), and Φ(−a) − a φ(a)
};
template <class T, class S = Sum<T>>
__device__ NormalTail<S> normal_tail(S x) {
  const S a = abs(x) > kNormalTail<S> ? kNormalTail<S> : abs(x);
  if constexpr (sizeof(S) == 8) {
    const S cdf = 0.5 * erfc(a * 0.70710678118654752440);
    return {a, cdf, cdf - a * 0.398942280401432677939946 * exp(-0.5 * a * a)};
  } else {
    // e^(−a²/2): e^ would magnify the rounding error of a², so that error is added to the argument's small part.
    const float square = a * a, lost = fmaf(a, a, -square);
    const float e = square > 174.6f ? 0.0f : exponential<T>(-0.5f * square) * fmaf(-0.5f, lost, 1.0f);
    // Φ(−a) e^(a²/2): minimax of degree 9 in u = (a − 3) / (a + 3), as on the CPU.
    const float u = divide<T>(a - 3.0f, a + 3.0f), u2 = u * u;
    float odd = fmaf(u2, 5.415024758e-5f, -3.3991108e-4f), even = fmaf(u2, 1.160364706e-4f, -9.841820257e-4f);
    odd = fmaf(odd, u2, 2.904702662e-3f);
    even = fmaf(even, u2, 6.132182874e-3f);
    odd = fmaf(odd, u2, -4.621331383e-2f);
    even = fmaf(even, u2, 1.232250217e-1f);
    odd = fmaf(odd, u2, -2.064026179e-1f);
    even = fmaf(even, u2, 1.215139477e-1f);
    const float p = fmaf(odd, u, even);
    return {a, e * p, e * fmaf(-a, 0.398942280401432677939946f, p)};
  }
}

struct Relu {
  template <class T, class S>
  __device__ S value(S x) const {
    return x < 0 ? S{0} : x;
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    return x > 0 ? S{1} : S{0};
  }
};

// x Φ(x) = max(x, 0) − a Φ(−a) with a = |x|.
struct Gelu {
  template <class T, class S>
  __device__ S value(S x) const {
    const NormalTail<S> tail = normal_tail<T>(x);
    return fma(-tail.a, tail.cdf, x < 0 ? S{0} : x);
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    const S below = normal_tail<T>(x).slope;
    return x < 0 ? below : S{1} - below;
  }
};

// x σ(2u) with 2u = x (linear + cubic x²); slope s + x s (1 − s) · 2u'.
struct GeluTanh {
  static constexpr double kLinear = 1.59576912160573071175978, kCubic = 0.044715 * kLinear;
  template <class T, class S>
  __device__ S value(S x) const {
    return above(x, kNormalTail<S>) * gate<T>(within(x, kNormalTail<S>)).value;
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    const S c = within(x, kNormalTail<S>);
    const Logistic<S> s = gate<T>(c);
    return fma(c * s.value * s.rest, fma(S(3 * kCubic), c * c, S(kLinear)), s.value);
  }

 private:
  template <class T, class S>
  __device__ Logistic<S> gate(S x) const {
    return logistic<T>(x * fma(S(kCubic), x * x, S(kLinear)));
  }
};

// x σ(x); slope s (1 + x (1 − s)).
struct Silu {
  template <class T, class S>
  __device__ S value(S x) const {
    return above(x, kLogisticTail<S>) * logistic<T>(x).value;
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    const Logistic<S> s = logistic<T>(x);
    return s.value * fma(within(x, kLogisticTail<S>), s.rest, S{1});
  }
};

struct Tanh {
  template <class T, class S>
  __device__ S value(S x) const {
    return tanh(x);
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    const S t = tanh(x);
    return fma(-t, t, S{1});
  }
};

struct Sigmoid {
  template <class T, class S>
  __device__ S value(S x) const {
    return logistic<T>(x).value;
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    const Logistic<S> s = logistic<T>(x);
    return s.value * s.rest;
  }
};

struct Exp {
  template <class T, class S>
  __device__ S value(S x) const {
    return exponential<T>(x);
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    return exponential<T>(x);
  }
};

struct Log {
  template <class T, class S>
  __device__ S value(S x) const {
    return log(x);
  }
  template <class T, class S>
  __device__ S slope(S x) const {
    return S{1} / x;
  }
};

/// Calls f with the function object for `kind`.
template <class F>
__device__ void with_function(UnaryKind kind, F&& f) {
  switch (kind) {
    case UnaryKind::relu:
      return f(Relu{});
    case UnaryKind::gelu:
      return f(Gelu{});
    case UnaryKind::gelu_tanh:
      return f(GeluTanh{});
    case UnaryKind::silu:
      return f(Silu{});
    case UnaryKind::tanh:
      return f(Tanh{});
    case UnaryKind::sigmoid:
      return f(Sigmoid{});
    case UnaryKind::exp:
      return f(Exp{});
    case UnaryKind::log:
      return f(Log{});
  }
}

}  // namespace attend::cuda
