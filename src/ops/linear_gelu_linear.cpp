#include "attend/ops/linear.h"
#include "attend/ops/activation.h"
#include "attend/ops/weight_format.h"
#include "ops/check.h"
#include "ops/linear_layer.h"
#include "ops/product.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

/// Whether the products take the activation: all parameters are weights to train, and activations have 16 bits.
bool is_fused(const Tensor& x, const LinearWeights& up, const LinearWeights& down, const Tensor& residual) {
  const DType dtype = activation_dtype(x);
  return is_16_bit(dtype) && x.device() != kCpu && !is_reduced(up.weight) && !is_reduced(down.weight) &&
         (!residual || residual.dtype() == dtype || residual.dtype() == sum_dtype(dtype));
}

Tensor empty_matrix(const Tensor& x, int64_t cols) { return empty({x.dim(0), cols}, {x.dtype(), x.device()}); }

LinearGradients gradients_of(const Tensor& matrix, const Tensor& rounded, const LinearWeights& layer) {
  return {.matrix = matrix,
          .weight = rounded,
          .precision = current_precision(),
          .x_type = matrix.dtype(),
          .weight_type = layer.weight.dtype(),
          .bias_type = layer.bias.dtype(),
          .need_weight = needs_grad(layer.weight),
          .need_bias = needs_grad(layer.bias)};
}

}  // namespace

// u = x Wᵀ + b, h = gelu(u), y = h Vᵀ + c + r: du = (dy V) · gelu'(u), and each layer's gradients are those of
// linear().
Tensor linear_gelu_linear(const Tensor& x, const LinearWeights& up, const LinearWeights& down, const Tensor& residual) {
  check_linear(x, up.weight, up.bias);
  if (!is_fused(x, up, down, residual)) {
    return linear(gelu_tanh(linear(x, up.weight, up.bias)), down.weight, down.bias, residual);
  }
  const DType dtype = activation_dtype(x);
  const Tensor matrix = to(as_matrix(x.detach()), dtype);  // [rows, in]
  const Tensor first = to(up.weight.detach(), dtype), second = to(down.weight.detach(), dtype);
  const Tensor u = empty_matrix(matrix, first.dim(0)), hidden = empty_like(u);
  check_linear(hidden, down.weight, down.bias);
  const Shape shape = x.shape().with_last(second.dim(0));
  require<ShapeError>(!residual || residual.shape() == shape, "linear_gelu_linear: residual must be ", shape, ", got ",
                      residual.shape());
  const MatmulKernels& kernel = kernels(x.device()).matmul;
  kernel.multiply_gelu(matrix.view(), transposed(first, 0, 1).view(), view_or_empty(up.bias), u.view(), hidden.view());
  const ProductOptions options{.bias = down.bias,
                               .residual = residual ? to(as_matrix(residual.detach()), dtype) : Tensor{}};
  const Tensor y = reshaped(product(hidden, transposed(second, 0, 1), options), shape);
  LinearGradients to_up = gradients_of(matrix, first, up);
  to_up.x_type = x.dtype();
  to_up.need_x = needs_grad(x);
  return record(
      "linear_gelu_linear", y, {x, up.weight, up.bias, down.weight, down.bias, residual},
      [=, to_down = gradients_of(hidden, second, down), x_shape = x.shape(), need_residual = needs_grad(residual)](
          const Tensor& dy, const Gradients& sums) -> Gradients {
        const Tensor upstream = as_matrix(dy), du = empty_like(u);
        kernels(dy.device()).matmul.multiply_gelu_backward(upstream.view(), second.view(), u.view(), du.view());
        const Gradients above = to_down.of(upstream, {{}, sums[3], sums[4]});
        const Gradients below = to_up.of(du, {sums[0], sums[1], sums[2]});
        const Tensor dx = below[0] ? reshaped(below[0], x_shape) : Tensor{};
        return {dx, below[1], below[2], above[1], above[2], need_residual ? dy : Tensor{}};
      });
}

}  // namespace attend
