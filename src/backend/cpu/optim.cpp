#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/row_pieces.h"

// Both updates read and write every parameter once and are bound by memory: plain loops that the compiler vectorises
// do.
namespace attend::cpu {
namespace {

/// The constants of one step, in the parameters' type.
template <class T>
struct AdamStep {
  T beta1, beta2, rest1, rest2, eps, step_size, inverse_root, decay_gradient, keep_parameter, grad_scale;

  // m̂ = m / (1 − β1ᵗ), v̂ = v / (1 − β2ᵗ); p −= lr m̂ / (√v̂ + ε). AdamW first shrinks p by lr · decay.
  explicit AdamStep(const AdamOptions& o) {
    const auto t = static_cast<double>(o.step);
    const double correction1 = 1 - std::pow(o.beta1, t), correction2 = 1 - std::pow(o.beta2, t);
    beta1 = static_cast<T>(o.beta1);
    beta2 = static_cast<T>(o.beta2);
    rest1 = static_cast<T>(1 - o.beta1);
    rest2 = static_cast<T>(1 - o.beta2);
    eps = static_cast<T>(o.eps);
    step_size = static_cast<T>(o.lr / correction1);
    inverse_root = static_cast<T>(1 / std::sqrt(correction2));
    decay_gradient = static_cast<T>(o.decoupled ? 0 : o.weight_decay);
    keep_parameter = static_cast<T>(o.decoupled ? 1 - o.lr * o.weight_decay : 1);
    grad_scale = static_cast<T>(o.grad_scale);
  }
};

template <class T>
void adam_piece(const AdamStep<T>& s, const T* __restrict grad, T* __restrict param, T* __restrict m, T* __restrict v,
                int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T g = grad[i] * s.grad_scale + s.decay_gradient * param[i];
    m[i] = s.beta1 * m[i] + s.rest1 * g;
    v[i] = s.beta2 * v[i] + s.rest2 * g * g;
    param[i] = param[i] * s.keep_parameter - s.step_size * m[i] / (std::sqrt(v[i]) * s.inverse_root + s.eps);
  }
}

template <class T>
void sgd_piece(const SgdOptions& o, const T* __restrict grad, T* __restrict param, T* __restrict buffer,
               int64_t count) {
  const T lr = static_cast<T>(o.lr), decay = static_cast<T>(o.weight_decay), scale = static_cast<T>(o.grad_scale);
  const T momentum = static_cast<T>(o.first ? 0 : o.momentum), fresh = static_cast<T>(o.first ? 1 : 1 - o.dampening);
  if (buffer == nullptr) {
    for (int64_t i = 0; i < count; ++i) param[i] -= lr * (grad[i] * scale + decay * param[i]);
    return;
  }
  // The first step sets the buffer to the gradient itself, without dampening, whatever it held (NaN included).
  if (o.first) std::fill(buffer, buffer + count, T{0});
  const T ahead = static_cast<T>(o.nesterov ? o.momentum : 1), own = static_cast<T>(o.nesterov ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    const T g = grad[i] * scale + decay * param[i];
    buffer[i] = momentum * buffer[i] + fresh * g;
    param[i] -= lr * (own * g + ahead * buffer[i]);
  }
}

template <class... Matrices>
bool all_dense(const Matrices&... matrices) {
  return ((!matrices || matrices.stride == matrices.cols) && ...);
}

}  // namespace

void adam(ConstRows grad, const AdamOptions& options, Rows param, Rows m, Rows v) {
  with_float(param.dtype, "adam", [&](auto type) {
    using T = decltype(type);
    const AdamStep<T> step(options);
    for_each_piece(param.rows, param.cols, all_dense(grad, param, m, v), [&](const Piece& piece) {
      adam_piece<T>(step, piece.of<T>(grad), piece.of<T>(param), piece.of<T>(m), piece.of<T>(v), piece.count);
    });
  });
}

void sgd(ConstRows grad, const SgdOptions& options, Rows param, Rows buffer) {
  with_float(param.dtype, "sgd", [&](auto type) {
    using T = decltype(type);
    for_each_piece(param.rows, param.cols, all_dense(grad, param, buffer), [&](const Piece& piece) {
      sgd_piece<T>(options, piece.of<T>(grad), piece.of<T>(param), buffer ? piece.of<T>(buffer) : nullptr, piece.count);
    });
  });
}

}  // namespace attend::cpu
