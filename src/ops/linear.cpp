#include "attend/ops/linear.h"

#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/product.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_float(x, "linear");
  require_float(weight, "linear", "weight");
  require<ShapeError>(weight.rank() == 2, "linear: weight must be [out, in], got shape ", weight.shape());
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) == weight.dim(1), "linear: x has shape ", x.shape(),
                      " but weight [out, in] is ", weight.shape());
  require<ShapeError>(!bias || bias.shape() == Shape{weight.dim(0)}, "linear: bias must be [", weight.dim(0),
                      "] as weight is ", weight.shape(), ", got ", bias.shape());
  require_same_kind(x, weight, "linear", "weight");
  require_same_kind(x, bias, "linear", "bias");
}

}  // namespace

// y = x Wᵀ + b: dx = dy W, dW = dyᵀ x, db = Σ_rows dy; all leading axes of x are rows.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear(x, weight, bias);
  const Tensor matrix = as_matrix(x.detach());  // [rows, in]
  const MatmulPrecision precision = matmul_precision();
  const Tensor y = reshaped(product(matrix, transposed(weight, 0, 1), {.bias = bias, .precision = precision}),
                            x.shape().with_last(weight.dim(0)));
  const bool need_x = needs_grad(x), need_weight = needs_grad(weight), need_bias = needs_grad(bias);
  return record("linear", y, {x, weight, bias},
                [=, shape = x.shape(), weight = weight.detach()](const Tensor& dy) -> Gradients {
                  const Tensor upstream = as_matrix(dy);  // [rows, out]
                  Gradients gradients(3);
                  if (need_x) gradients[0] = reshaped(product(upstream, weight, {.precision = precision}), shape);
                  if (need_weight) gradients[1] = product(transposed(upstream, 0, 1), matrix, {.precision = precision});
                  if (need_bias) gradients[2] = reduced_to(upstream, {weight.dim(0)});
                  return gradients;
                });
}

}  // namespace attend
