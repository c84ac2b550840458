#include <algorithm>

#include "backend/cpu/cpu.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/memory.h"

// Products with what surrounds them: a norm before, an activation, a residual and another place after. Each is computed
// by its own kernel, so that the bits are those of separate calls.
namespace attend::cpu {
namespace {

ConstView as_view(const ConstRows& x) { return {x.data, x.dtype, {x.rows, x.cols}, {x.stride, 1}}; }
View as_view(const Rows& x) { return {x.data, x.dtype, {x.rows, x.cols}, {x.stride, 1}}; }

bool is_plain(const WeightProduct& product) { return !product.activation && !product.residual && !product.places; }

void norm_rows(const ConstRows& x, const RowNorm& norm, const Rows& y) {
  const Scratch<float> statistics(2 * x.rows);
  const Rows mean{statistics.data(), DType::f32, 1, x.rows, x.rows};
  const Rows rstd{statistics.data() + x.rows, DType::f32, 1, x.rows, x.rows};
  if (norm.rms) return rms_norm(x, norm.weight, norm.eps, y, rstd);
  layer_norm(x, norm.weight, norm.bias, norm.eps, y, mean, rstd);
}

void multiply_surrounded(const ConstRows& x, const WeightProduct& product, const WeightProductOptions& options) {
  const Scratch<float> memory(std::max<int64_t>(1, x.rows * product.y.cols));
  const Rows own{memory.data(), DType::f32, x.rows, product.y.cols, product.y.cols};
  const WeightProduct plain{.weight = product.weight, .bias = product.bias, .y = own};
  multiply_formats(x, {&plain, 1}, options);
  if (product.activation) unary(*product.activation, own, own);
  if (product.residual) binary(BinaryKind::add, as_view(product.residual), as_view(own), as_view(own));
  if (product.places) return put_rows(own, product.places, product.y);
  copy(as_view(ConstRows(own)), as_view(product.y));
}

/// Products of x as it is.
void multiply_all(const ConstRows& x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  if (std::ranges::all_of(products, is_plain)) return multiply_formats(x, products, options);
  for (const WeightProduct& product : products) multiply_surrounded(x, product, options);
}

}  // namespace

void multiply_weights(ConstRows x, std::span<const WeightProduct> products, const WeightProductOptions& options) {
  if (!options.norm) return multiply_all(x, products, options);
  const Scratch<float> memory(std::max<int64_t>(1, x.numel()));
  const Rows normed{memory.data(), DType::f32, x.rows, x.cols, x.cols};
  norm_rows(x, *options.norm, normed);
  multiply_all(normed, products, options);
}

void multiply_chain(ConstRows x, std::span<const WeightProduct> stages, const WeightProductOptions& options) {
  if (stages.size() == 1) return multiply_weights(x, stages, options);
  WeightProduct product = stages[0];
  const int64_t width = product.weight.values.rows;
  const Scratch<float> memory(std::max<int64_t>(1, x.rows * width));
  product.y = {memory.data(), DType::f32, x.rows, width, width};
  multiply_weights(x, {&product, 1}, options);
  multiply_chain(product.y, stages.subspan(1), {.bf16 = options.bf16, .batch_invariant = options.batch_invariant});
}

}  // namespace attend::cpu
