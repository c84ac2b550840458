#include "attend/ops/linear.h"

#include "attend/ops/weight_format.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/product.h"
#include "ops/reshaped.h"
#include "ops/weight_matrix.h"

namespace attend {
namespace {

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

}  // namespace

// y = x Wᵀ + b: dx = dy W, dW = dyᵀ x, db = Σ_rows dy; all leading axes of x are rows. With activations of 16 bits, the
// weight is rounded once for both passes, and the gradients of f32 inputs are f32 sums.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear(x, weight, bias);
  const LinearWeights layer{weight, bias};
  if (is_for_inference(x, layer)) return infer_each(x, std::span(&layer, 1))[0];
  const DType dtype = activation_dtype(x);
  const Tensor matrix = to(as_matrix(x.detach()), dtype);  // [rows, in]
  const Tensor rounded = to(weight.detach(), dtype);
  const Precision precision = current_precision();
  const Tensor y = reshaped(product(matrix, transposed(rounded, 0, 1), {.bias = bias, .precision = precision}),
                            x.shape().with_last(weight.dim(0)));
  const bool need_x = needs_grad(x), need_weight = needs_grad(weight), need_bias = needs_grad(bias);
  return record("linear", y, {x, weight, bias},
                [=, shape = x.shape(), x_type = x.dtype(), weight_type = weight.dtype(),
                 bias_type = bias.dtype()](const Tensor& dy) -> Gradients {
                  const Tensor upstream = as_matrix(dy);  // [rows, out]
                  const auto multiplied = [&](const Tensor& a, const Tensor& b, DType type) {
                    return product(a, b, {.precision = precision, .result = type});
                  };
                  Gradients gradients(3);
                  if (need_x) gradients[0] = reshaped(multiplied(upstream, rounded, x_type), shape);
                  if (need_weight) gradients[1] = multiplied(transposed(upstream, 0, 1), matrix, weight_type);
                  if (need_bias) gradients[2] = reduced_to(upstream, {rounded.dim(0)}, bias_type);
                  return gradients;
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
