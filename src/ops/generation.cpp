#include "ops/generation.h"

#include "attend/ops/norm.h"
#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "ops/check.h"
#include "ops/reshaped.h"
#include "ops/unary.h"
#include "ops/weight_matrix.h"

namespace attend {
namespace {

/// Whether the kernel can read the weights in place, as in linear().
bool is_fused(const Tensor& x, const LinearStep& step) {
  if (x.dtype() != DType::f32) return false;
  return is_reduced(step.layer.weight) || (step.layer.weight.dtype() == DType::f32 &&
                                           step.layer.weight.is_contiguous() && current_precision() == Precision::f32);
}

void check_step(const Tensor& x, const LinearStep& step) {
  const LinearWeights& layer = step.layer;
  require<ShapeError>(layer.weight.rank() == 2 && x.dim(-1) == layer.weight.dim(1), "linear_steps: x has shape ",
                      x.shape(), " but weight [out, in] is ", layer.weight.shape());
  require<DeviceError>(layer.weight.device() == x.device(), "linear_steps: weight is on ", layer.weight.device(),
                       " but x is on ", x.device());
  const Shape shape = x.shape().with_last(layer.weight.dim(0));
  require<ShapeError>(!step.residual || step.residual.shape() == shape, "linear_steps: the residual must have shape ",
                      shape, ", got ", step.residual.shape());
  require<ShapeError>(
      !step.into || (step.into.rank() == 2 && step.into.is_contiguous() && step.into.dim(1) == layer.weight.dim(0)),
      "linear_steps: the target must be dense [rows, ", layer.weight.dim(0), "]");
  require<ShapeError>(!step.places || step.into, "linear_steps: places without a target");
}

/// The steps by separate ops, for weights that the fused kernel does not read.
std::vector<Tensor> separate_steps(const Tensor& x, const std::optional<NormWeights>& norm,
                                   std::span<const LinearStep> steps) {
  Tensor in = x;
  if (norm) {
    in = norm->rms ? rms_norm(x, norm->weight, {.eps = norm->eps})
                   : layer_norm(x, norm->weight, norm->bias, {.eps = norm->eps});
  }
  std::vector<Tensor> results;
  for (const LinearStep& step : steps) {
    Tensor y = linear(in, step.layer.weight, step.layer.bias);
    if (step.activation) y = unary(*step.activation, "linear_steps", y);
    if (step.residual) kernels(y.device()).elementwise.accumulate(dense(step.residual).view(), y.view());
    if (step.places) {
      put_rows(as_matrix(y), step.places, step.into);
    } else if (step.into) {
      kernels(y.device()).elementwise.copy(as_matrix(y).view(), step.into.view());
    }
    results.push_back(step.into ? step.into : y);
  }
  return results;
}

}  // namespace

void upload_numbers(std::span<const int64_t> numbers, const Tensor& target) {
  require<ShapeError>(
      target.dtype() == DType::i64 && target.is_contiguous() && target.numel() == static_cast<int64_t>(numbers.size()),
      "upload_numbers: ", numbers.size(), " numbers, but the target has shape ", target.shape());
  kernels(target.device()).memory.upload(target.view().data, numbers.data(), numbers.size_bytes());
}

Tensor embedding_unchecked(const Tensor& ids, const Tensor& weight) {
  Shape shape = ids.shape();
  shape.push_back(weight.dim(1));
  const bool reduced = is_reduced(weight);
  const Tensor y = empty(shape, {reduced ? DType::f32 : weight.dtype(), weight.device()});
  const Kernels& table = kernels(weight.device());
  if (reduced) {
    table.weights.take_rows(weight_matrix(dense(weight)), rows(dense(ids)), rows(y));
  } else {
    table.index.take_rows(rows(dense(weight)), rows(dense(ids)), rows(y));
  }
  return y;
}

Tensor take_rows(const Tensor& x, const Tensor& order) {
  require<ShapeError>(x.rank() == 2 && x.dtype() == DType::f32, "take_rows: expected an f32 matrix, got ", x.dtype(),
                      " ", x.shape());
  const Tensor y = empty({order.numel(), x.dim(1)}, {x.dtype(), x.device()});
  kernels(x.device()).index.take_rows(rows(dense(x)), rows(on_device(dense(order), x.device())), rows(y));
  return y;
}

void put_rows(const Tensor& x, const Tensor& places, const Tensor& into) {
  require<ShapeError>(x.rank() == 2 && into.rank() == 2 && into.is_contiguous() && x.dim(1) == into.dim(1) &&
                          places.numel() == x.dim(0),
                      "put_rows: x ", x.shape(), " with ", places.shape(), " places does not fit into ", into.shape());
  kernels(x.device()).generation.put_rows(rows(dense(x)), rows(dense(places)), rows(into));
}

void copy_runs(const Tensor& from, const Tensor& copies, int64_t longest, const Tensor& to) {
  require<ShapeError>(from.rank() == 2 && from.is_contiguous() && to.is_contiguous() && to.rank() == 2 &&
                          from.dim(1) == to.dim(1) && copies.rank() == 2 && copies.dim(1) == 3,
                      "copy_runs: from ", from.shape(), " to ", to.shape(), " with copies ", copies.shape());
  kernels(from.device()).generation.copy_runs(rows(from), rows(dense(copies)), longest, rows(to));
}

Tensor best_logits(const Tensor& logits, int64_t words, int64_t count) {
  require<ShapeError>(logits.rank() == 2 && logits.dtype() == DType::f32 && words >= 1 && words <= logits.dim(1) &&
                          words <= int64_t{1} << 24,
                      "best_logits: expected f32 [rows, at least ", words, "], got ", logits.dtype(), " ",
                      logits.shape());
  const Tensor in = dense(logits), result = empty({logits.dim(0), 2 + 2 * count}, {DType::f32, logits.device()});
  const Kernels& table = kernels(logits.device());
  const Rows all = rows(result);
  const auto part = [&](int64_t first, int64_t cols) {
    return Rows{static_cast<float*>(all.data) + first, DType::f32, all.rows, cols, all.stride};
  };
  ConstRows allowed = rows(in);
  table.softmax.log_terms(allowed, part(0, 2));
  allowed.cols = words;
  table.generation.top(allowed, part(2, count), part(2 + count, count));
  return result;
}

std::vector<Tensor> linear_steps(const Tensor& x, const std::optional<NormWeights>& norm,
                                 std::span<const LinearStep> steps) {
  require_float(x, "linear_steps");
  bool fused = true;
  for (const LinearStep& step : steps) {
    check_step(x, step);
    fused = fused && is_fused(x, step);
  }
  if (!fused) return separate_steps(x, norm, steps);
  const Tensor matrix = dense(as_matrix(x.detach()));
  std::vector<Tensor> results, kept;
  std::vector<WeightProduct> products;
  const auto keep = [&](const Tensor& tensor) {
    if (!tensor) return Rows{};
    kept.push_back(dense(as_matrix(tensor.detach())));
    return rows(kept.back());
  };
  for (const LinearStep& step : steps) {
    const LinearWeights& layer = step.layer;
    results.push_back(step.into ? step.into : empty(x.shape().with_last(layer.weight.dim(0)), {x.dtype(), x.device()}));
    kept.push_back(dense(layer.weight));
    products.push_back({.weight = weight_matrix(kept.back()),
                        .bias = keep(layer.bias),
                        .y = rows(results.back()),
                        .activation = step.activation,
                        .residual = keep(step.residual),
                        .places = keep(step.places)});
  }
  WeightProductOptions options{.bf16 = current_precision() == Precision::bf16, .batch_invariant = is_batch_invariant()};
  if (norm) {
    options.norm = {.weight = keep(norm->weight), .bias = keep(norm->bias), .eps = norm->eps, .rms = norm->rms};
  }
  kernels(x.device()).weights.multiply(rows(matrix), products, options);
  return results;
}

}  // namespace attend
