#include "attend/ops/norm.h"

#include "ops/check.h"

namespace attend {
namespace {

void check_parameter(const Tensor& x, const Tensor& parameter, const char* op, const char* name) {
  require_parameter(x, parameter, op, name);
  require<ShapeError>(!parameter || parameter.shape() == Shape{x.dim(-1)}, op, ": ", name, " must have shape [",
                      x.dim(-1), "], got ", parameter.shape());
}

void check_input(const Tensor& x, const char* op) {
  require_float(x, op);
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) >= 1, op, ": last axis must not be empty, got shape ", x.shape());
}

/// One statistic for each row of x.
Tensor per_row(const Tensor& x) { return empty({x.numel() / x.dim(-1)}, {sum_dtype(x.dtype()), x.device()}); }

Tensor dense_or_empty(const Tensor& x) { return x ? dense(x) : Tensor{}; }
Tensor like_if(bool wanted, const Tensor& x) { return wanted ? empty_like(x) : Tensor{}; }
/// Where the gradient of x goes: into its sum so far, if there is one.
Tensor sum_or_new(bool wanted, const Tensor& sum, const Tensor& x) { return sum ? sum : like_if(wanted, x); }

}  // namespace

// With g = dy · weight and x̂ the normalised row: dx = rstd (g − mean(g) − x̂ mean(g x̂)), dweight = Σ_rows dy x̂,
// dbias = Σ_rows dy.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, NormOptions options) {
  check_input(x, "layer_norm");
  check_parameter(x, weight, "layer_norm", "weight");
  check_parameter(x, bias, "layer_norm", "bias");
  if (weight) require_same_kind(weight, bias, "layer_norm", "bias");
  const Tensor in = dense(x), w = dense_or_empty(weight), b = dense_or_empty(bias);
  const Tensor y = empty_like(x), mean = per_row(x), rstd = per_row(x);
  kernels(x.device())
      .norm.layer_forward(rows(in), rows_or_empty(w), rows_or_empty(b), options.eps, rows(y), rows(mean), rows(rstd));
  const bool to_x = needs_grad(x), to_weight = weight && needs_grad(weight), to_bias = bias && needs_grad(bias);
  if (!to_x && !to_weight && !to_bias) return y;
  return record("layer_norm", y, {x, weight, bias}, [=](const Tensor& dy, const Gradients& sums) -> Gradients {
    const Tensor dx = sum_or_new(to_x, sums[0], in), dweight = like_if(to_weight, w), dbias = like_if(to_bias, b);
    kernels(in.device())
        .norm.layer_backward(rows(dense(dy)), rows(in), rows_or_empty(w), rows(mean), rows(rstd),
                             rows_or_empty(sums[0]), rows_or_empty(dx), rows_or_empty(dweight), rows_or_empty(dbias));
    return {dx, dweight, dbias};
  });
}

// As layer_norm without the mean: dx = rstd (g − x̂ mean(g x̂)).
Tensor rms_norm(const Tensor& x, const Tensor& weight, NormOptions options) {
  check_input(x, "rms_norm");
  check_parameter(x, weight, "rms_norm", "weight");
  const Tensor in = dense(x), w = dense_or_empty(weight), y = empty_like(x), rstd = per_row(x);
  kernels(x.device()).norm.rms_forward(rows(in), rows_or_empty(w), options.eps, rows(y), rows(rstd));
  const bool to_x = needs_grad(x), to_weight = weight && needs_grad(weight);
  if (!to_x && !to_weight) return y;
  return record("rms_norm", y, {x, weight}, [=](const Tensor& dy, const Gradients& sums) -> Gradients {
    const Tensor dx = sum_or_new(to_x, sums[0], in), dweight = like_if(to_weight, w);
    kernels(in.device())
        .norm.rms_backward(rows(dense(dy)), rows(in), rows_or_empty(w), rows(rstd), rows_or_empty(sums[0]),
                           rows_or_empty(dx), rows_or_empty(dweight));
    return {dx, dweight};
  });
}

}  // namespace attend
