#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/row_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/optim.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include "backend/cpu/sweep-inl.h"
#include "backend/cpu/with_float-inl.h"
// clang-format on

// Both updates read and write every parameter once and are limited by memory bandwidth. Adam is written with explicit
// vectors: with four lanes at a time, its square root and division would be the bottleneck. SGD is a plain loop that
// the compiler vectorises.
HWY_BEFORE_NAMESPACE();
namespace attend::cpu::HWY_NAMESPACE {

/// The constants of one step, in the parameters' type.
template <class T>
struct AdamStep {
  T beta1, beta2, rest1, rest2, eps, step_size, inverse_root, decay_gradient, keep_parameter, grad_scale;

  // m̂ = m / (1 − β1ᵗ), v̂ = v / (1 − β2ᵗ); p −= lr m̂ / (√v̂ + ε). AdamW first shrinks p by lr · decay.
  AdamStep(const AdamOptions& o, const AdamSlot& slot, double scale) {
    const auto t = static_cast<double>(slot.step);
    const double correction1 = 1 - std::pow(o.beta1, t), correction2 = 1 - std::pow(o.beta2, t);
    beta1 = static_cast<T>(o.beta1);
    beta2 = static_cast<T>(o.beta2);
    rest1 = static_cast<T>(1 - o.beta1);
    rest2 = static_cast<T>(1 - o.beta2);
    eps = static_cast<T>(o.eps);
    step_size = static_cast<T>(o.lr / correction1);
    inverse_root = static_cast<T>(1 / std::sqrt(correction2));
    decay_gradient = static_cast<T>(o.decoupled ? 0 : slot.weight_decay);
    keep_parameter = static_cast<T>(o.decoupled ? 1 - o.lr * slot.weight_decay : 1);
    grad_scale = static_cast<T>(scale);
    if (!slot.rates) return;
    const auto* rates = static_cast<const double*>(slot.rates.data);
    step_size = static_cast<T>(rates[0]);
    inverse_root = static_cast<T>(rates[1]);
    keep_parameter = static_cast<T>(rates[2]);
  }
};

template <class T>
void AdamPiece(const AdamStep<T>& s, const T* HWY_RESTRICT grad, T* HWY_RESTRICT param, T* HWY_RESTRICT m,
               T* HWY_RESTRICT v, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto set = [d](T value) { return hn::Set(d, value); };
  const auto beta1 = set(s.beta1), beta2 = set(s.beta2), rest1 = set(s.rest1), rest2 = set(s.rest2);
  const auto step_size = set(s.step_size), inverse_root = set(s.inverse_root), eps = set(s.eps);
  const auto grad_scale = set(s.grad_scale), decay = set(s.decay_gradient), keep = set(s.keep_parameter);
  Sweep(d, count, [&](auto place) {
    const auto p = place.load(param);
    const auto g = hn::MulAdd(place.load(grad), grad_scale, hn::Mul(decay, p));
    const auto first = hn::MulAdd(beta1, place.load(m), hn::Mul(rest1, g));
    const auto second = hn::MulAdd(beta2, place.load(v), hn::Mul(hn::Mul(rest2, g), g));
    place.store(first, m);
    place.store(second, v);
    const auto root = hn::MulAdd(hn::Sqrt(second), inverse_root, eps);
    place.store(hn::MulSub(p, keep, hn::Div(hn::Mul(step_size, first), root)), param);
  });
}

void Adam(const AdamSlot& slot, const AdamOptions& options, double scale) {
  const auto& [grad, param, m, v, decay, count, rates] = slot;
  const auto dense = [](const auto&... matrices) { return ((matrices.stride == matrices.cols) && ...); };
  WithFloat(param.dtype, "adam", [&](auto type) {
    using T = decltype(type);
    const AdamStep<T> step(options, slot, scale);
    for_each_piece(param.rows, param.cols, dense(grad, param, m, v), [&](const Piece& piece) {
      AdamPiece<T>(step, piece.of<T>(grad), piece.of<T>(param), piece.of<T>(m), piece.of<T>(v), piece.count);
    });
  });
}

}  // namespace attend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::cpu {
HWY_EXPORT(Adam);

namespace {

template <class T>
void sgd_piece(const SgdOptions& o, T scale, bool first, const T* __restrict grad, T* __restrict param,
               T* __restrict buffer, int64_t count) {
  const T lr = static_cast<T>(o.lr), decay = static_cast<T>(o.weight_decay);
  const T momentum = static_cast<T>(first ? 0 : o.momentum), fresh = static_cast<T>(first ? 1 : 1 - o.dampening);
  if (buffer == nullptr) {
    for (int64_t i = 0; i < count; ++i) param[i] -= lr * (grad[i] * scale + decay * param[i]);
    return;
  }
  // The first step sets the buffer to the gradient, without dampening, whatever the buffer held (even NaN).
  if (first) std::fill(buffer, buffer + count, T{0});
  const T ahead = static_cast<T>(o.nesterov ? o.momentum : 1), own = static_cast<T>(o.nesterov ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    const T g = grad[i] * scale + decay * param[i];
    buffer[i] = momentum * buffer[i] + fresh * g;
    param[i] -= lr * (own * g + ahead * buffer[i]);
  }
}

/// The factor that clipping applies to the gradients; nothing if the update must change nothing.
std::optional<double> gradient_scale(const GradientClip& clip) {
  if (!clip.squares) return 1;
  const double squares = *static_cast<const double*>(clip.squares.data);
  if (!std::isfinite(squares)) return {};
  return std::min(1.0, clip.max_norm / (std::sqrt(squares) + 1e-6));  // PyTorch's guard against a norm of 0
}

}  // namespace

void adam(std::span<const AdamSlot> slots, const AdamOptions& options, const GradientClip& clip) {
  const auto scale = gradient_scale(clip);
  if (!scale) return;
  for (const AdamSlot& slot : slots) ATTEND_DISPATCH(slot.param.dtype, Adam)(slot, options, *scale);
}

void sgd(std::span<const SgdSlot> slots, const SgdOptions& given, const GradientClip& clip) {
  const auto scale = gradient_scale(clip);
  if (!scale) return;
  SgdOptions options = given;
  if (given.rate) options.lr = *static_cast<const double*>(given.rate.data);
  for (const auto& [grad, param, buffer, first] : slots) {
    with_float(param.dtype, "sgd", [&](auto type) {
      using T = decltype(type);
      const bool dense =
          grad.stride == grad.cols && param.stride == param.cols && (!buffer || buffer.stride == buffer.cols);
      for_each_piece(param.rows, param.cols, dense, [&](const Piece& piece) {
        sgd_piece<T>(options, static_cast<T>(*scale), first, piece.of<T>(grad), piece.of<T>(param),
                     buffer ? piece.of<T>(buffer) : nullptr, piece.count);
      });
    });
  }
}

}  // namespace attend::cpu
#endif
