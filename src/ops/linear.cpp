#include "attend/ops/linear.h"

#include "attend/ops/arithmetic.h"
#include "attend/ops/weight_format.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/linear_layer.h"
#include "ops/product.h"
#include "ops/reshaped.h"
#include "ops/weight_matrix.h"

namespace attend {

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_float(x, "linear");
  if (!is_reduced(weight)) require_float(weight, "linear", "weight");
  require<ShapeError>(weight.rank() == 2, "linear: weight must be [out, in], got shape ", weight.shape());
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) == weight.dim(1), "linear: x has shape ", x.shape(),
                      " but weight [out, in] is ", weight.shape());
  require<ShapeError>(!bias || bias.shape() == Shape{weight.dim(0)}, "linear: bias must be [", weight.dim(0),
                      "] because weight is ", weight.shape(), ", got ", bias.shape());
  require_parameter(x, bias, "linear", "bias");
  if (!is_reduced(weight) || weight.dtype() == x.dtype()) return require_parameter(x, weight, "linear", "weight");
  require<ShapeError>(x.dtype() == DType::f32, "linear: a weight of ", weight.dtype(), " needs x in f32, got ",
                      x.dtype());
  require<DeviceError>(weight.device() == x.device(), "linear: weight is on ", weight.device(), " but x is on ",
                       x.device());
  require<ShapeError>(!needs_grad(x) && !needs_grad(weight) && !needs_grad(bias), "linear: a weight of ",
                      weight.dtype(), " is for inference only and has no gradient");
}

Gradients LinearGradients::of(const Tensor& dy, const Gradients& sums) const {
  Gradients gradients(3);
  const auto added = [&](const Tensor& a, const Tensor& b, ProductOptions options) {
    options.precision = precision;
    return product(a, b, options);
  };
  if (need_x) {
    gradients[0] = added(dy, weight, {.result = x_type, .sum = sums[0] ? as_matrix(sums[0]) : Tensor{}});
  }
  const bool at_once = need_weight && need_bias && dy.device() != kCpu && bias_type == weight_type;
  if (at_once) gradients[2] = empty({weight.dim(0)}, {bias_type, dy.device()});
  if (need_weight) {
    gradients[1] =
        added(transposed(dy, 0, 1), matrix, {.result = weight_type, .sum = sums[1], .row_sums = gradients[2]});
  }
  if (need_bias && !at_once) gradients[2] = reduced_to(dy, {weight.dim(0)}, bias_type);
  return gradients;
}

namespace {

/// Whether the kernel can read the weights in place: x is f32, nothing is recorded, and f32 weights need no rounding.
bool is_for_inference(const Tensor& x, const LinearWeights& layer) {
  if (is_reduced(layer.weight)) return x.dtype() == DType::f32;
  return x.dtype() == DType::f32 && layer.weight.is_contiguous() && current_precision() == Precision::f32 &&
         !needs_grad(x) && !needs_grad(layer.weight) && !needs_grad(layer.bias);
}

/// linear(x, weight, bias) for all layers in one kernel call. Not recorded.
std::vector<Tensor> infer_each(const Tensor& x, std::span<const LinearWeights> layers) {
  const Tensor matrix = dense(as_matrix(x.detach()));  // [rows, in]
  std::vector<Tensor> results, kept;
  std::vector<WeightProduct> products;
  results.reserve(layers.size());
  kept.reserve(2 * layers.size());
  products.reserve(layers.size());
  for (const LinearWeights& layer : layers) {
    results.push_back(empty(x.shape().with_last(layer.weight.dim(0)), {x.dtype(), x.device()}));
    kept.push_back(dense(layer.weight));
    if (layer.bias) kept.push_back(dense(layer.bias));
    products.push_back({.weight = weight_matrix(kept[kept.size() - (layer.bias ? 2 : 1)]),
                        .bias = layer.bias ? rows(kept.back()) : Rows{},
                        .y = rows(results.back())});
  }
  kernels(x.device())
      .weights.multiply(rows(matrix), products,
                        {.bf16 = current_precision() == Precision::bf16, .batch_invariant = is_batch_invariant()});
  return results;
}

/// Whether the product can add the residual: on a GPU, in the dtype of the result.
bool takes_residual(const Tensor& x, const LinearWeights& layer, const Tensor& residual) {
  const DType dtype = activation_dtype(x);
  return x.device() != kCpu && residual.device() == x.device() && !is_for_inference(x, layer) &&
         residual.shape() == x.shape().with_last(layer.weight.dim(0)) &&
         (residual.dtype() == dtype || residual.dtype() == sum_dtype(dtype));
}

}  // namespace

// y = x Wᵀ + b + r: dx = dy W, dW = dyᵀ x, db = Σ_rows dy, dr = dy; all leading axes of x are rows. With activations of
// 16 bits, the weight is rounded once for both passes, and the gradients of f32 inputs are f32 sums.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  check_linear(x, weight, bias);
  const LinearWeights layer{weight, bias};
  if (residual && !takes_residual(x, layer, residual)) return residual + linear(x, weight, bias);
  if (is_for_inference(x, layer)) return infer_each(x, std::span(&layer, 1))[0];
  const DType dtype = activation_dtype(x);
  const Tensor matrix = to(as_matrix(x.detach()), dtype);  // [rows, in]
  const Tensor rounded = to(weight.detach(), dtype);
  const Precision precision = current_precision();
  const ProductOptions options{
      .bias = bias, .precision = precision, .residual = residual ? to(as_matrix(residual.detach()), dtype) : Tensor{}};
  const Tensor y = reshaped(product(matrix, transposed(rounded, 0, 1), options), x.shape().with_last(weight.dim(0)));
  const LinearGradients gradients{.matrix = matrix,
                                  .weight = rounded,
                                  .precision = precision,
                                  .x_type = x.dtype(),
                                  .weight_type = weight.dtype(),
                                  .bias_type = bias.dtype(),
                                  .need_x = needs_grad(x),
                                  .need_weight = needs_grad(weight),
                                  .need_bias = needs_grad(bias)};
  return record(
      "linear", y, {x, weight, bias, residual},
      [gradients, shape = x.shape(), need_residual = needs_grad(residual)](const Tensor& dy, const Gradients& sums) {
        Gradients all = gradients.of(as_matrix(dy), sums);
        if (all[0] && all[0].shape() != shape) all[0] = reshaped(all[0], shape);
        all.push_back(need_residual ? dy : Tensor{});
        return all;
      });
}

std::vector<Tensor> linear_each(const Tensor& x, std::span<const LinearWeights> layers) {
  bool at_once = true;
  for (const LinearWeights& layer : layers) {
    check_linear(x, layer.weight, layer.bias);
    at_once = at_once && is_for_inference(x, layer);
  }
  if (at_once) return infer_each(x, layers);
  std::vector<Tensor> results;
  for (const LinearWeights& layer : layers) results.push_back(linear(x, layer.weight, layer.bias));
  return results;
}

}  // namespace attend
