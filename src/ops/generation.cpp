#include "ops/generation.h"

#include <algorithm>

#include "attend/ops/norm.h"
#include "attend/ops/precision.h"
#include "attend/ops/weight_format.h"
#include "backend/graph.h"
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

/// x has shape `in`.
void check_step(const Shape& in, Device device, const LinearStep& step) {
  const LinearWeights& layer = step.layer;
  require<ShapeError>(layer.weight.rank() == 2 && in[in.rank() - 1] == layer.weight.dim(1),
                      "linear_steps: x has shape ", in, " but weight [out, in] is ", layer.weight.shape());
  require<DeviceError>(layer.weight.device() == device, "linear_steps: weight is on ", layer.weight.device(),
                       " but x is on ", device);
  const Shape shape = in.with_last(layer.weight.dim(0));
  require<ShapeError>(!step.residual || step.residual.shape() == shape, "linear_steps: the residual must have shape ",
                      shape, ", got ", step.residual.shape());
  require<ShapeError>(
      !step.into || (step.into.rank() == 2 && step.into.is_contiguous() && step.into.dim(1) == layer.weight.dim(0)),
      "linear_steps: the target must be dense [rows, ", layer.weight.dim(0), "]");
  require<ShapeError>(!step.places || step.into, "linear_steps: places without a target");
}

/// The arguments of a kernel for several steps, and the tensors that they point into.
class StepProducts {
 public:
  std::vector<WeightProduct> all;

  void add(const LinearStep& step, const Rows& y) {
    all.push_back({.weight = weight_matrix(kept(step.layer.weight, dense(step.layer.weight))),
                   .bias = rows_of(step.layer.bias),
                   .y = y,
                   .activation = step.activation,
                   .residual = rows_of(step.residual),
                   .places = rows_of(step.places)});
  }
  WeightProductOptions options(const std::optional<NormWeights>& norm, Device device) {
    WeightProductOptions options{.bf16 = current_precision() == Precision::bf16,
                                 .batch_invariant = is_batch_invariant()};
    if (norm) {
      options.norm = {.weight = rows_of(norm->weight), .bias = rows_of(norm->bias), .eps = norm->eps, .rms = norm->rms};
    }
    options.early = is_capturing(device) && !is_copied_;  // a captured step writes no weights
    return options;
  }

 private:
  Tensor kept(const Tensor& tensor, const Tensor& used) {
    kept_.push_back(used);
    is_copied_ |= used.storage() != tensor.storage();
    return used;
  }
  Rows rows_of(const Tensor& tensor) { return tensor ? rows(kept(tensor, dense(as_matrix(tensor.detach())))) : Rows{}; }

  std::vector<Tensor> kept_;
  bool is_copied_ = false;
};

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

Tensor embed_step(const Tensor& ids, const Tensor& tokens, const Tensor& positions, const Tensor& table) {
  if (!table) return embedding_unchecked(ids, tokens);
  const auto is_held = [](const Tensor& weight) { return is_reduced(weight) || weight.dtype() == DType::f32; };
  if (!is_held(tokens) || !is_held(table)) {
    Tensor x = embedding_unchecked(ids, tokens);
    kernels(x.device()).elementwise.accumulate(embedding_unchecked(positions, table).view(), x.view());
    return x;
  }
  const Tensor y = empty({ids.numel(), tokens.dim(1)}, {DType::f32, tokens.device()}), held = dense(tokens),
               second = dense(table);
  kernels(y.device())
      .generation.embed(weight_matrix(held), rows(dense(ids)), weight_matrix(second), rows(dense(positions)), rows(y));
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
  kernels(logits.device()).generation.best(rows(in), words, rows(result));
  return result;
}

std::vector<Tensor> linear_steps(const Tensor& x, const std::optional<NormWeights>& norm,
                                 std::span<const LinearStep> steps) {
  require_float(x, "linear_steps");
  for (const LinearStep& step : steps) check_step(x.shape(), x.device(), step);
  if (!std::ranges::all_of(steps, [&](const LinearStep& step) { return is_fused(x, step); })) {
    return separate_steps(x, norm, steps);
  }
  const Tensor matrix = dense(as_matrix(x.detach()));
  std::vector<Tensor> results;
  StepProducts products;
  for (const LinearStep& step : steps) {
    const Shape shape = x.shape().with_last(step.layer.weight.dim(0));
    results.push_back(step.into ? step.into : empty(shape, {x.dtype(), x.device()}));
    products.add(step, rows(results.back()));
  }
  const WeightProductOptions options = products.options(norm, x.device());
  kernels(x.device()).weights.multiply(rows(matrix), products.all, options);
  return results;
}

Tensor linear_chain(const Tensor& x, const std::optional<NormWeights>& norm, std::span<const LinearStep> stages) {
  require_float(x, "linear_chain");
  Shape shape = x.shape();
  bool fused = true;
  for (const LinearStep& stage : stages) {
    check_step(shape, x.device(), stage);
    shape = shape.with_last(stage.layer.weight.dim(0));
    fused = fused && is_fused(x, stage);
  }
  const LinearStep& last = stages.back();
  if (!fused) {
    Tensor y = linear_steps(x, norm, stages.first(1))[0];
    for (size_t i = 1; i < stages.size(); ++i) y = linear_steps(y, std::nullopt, stages.subspan(i, 1))[0];
    return y;
  }
  const Tensor matrix = dense(as_matrix(x.detach())), y = last.into ? last.into : empty(shape, {x.dtype(), x.device()});
  StepProducts products;
  for (const LinearStep& stage : stages) products.add(stage, &stage == &last ? rows(y) : Rows{});
  const WeightProductOptions options = products.options(norm, x.device());
  kernels(x.device()).weights.chain(rows(matrix), products.all, options);
  return y;
}

}  // namespace attend
