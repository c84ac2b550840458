#include "attend/ops/linear_cross_entropy.h"

#include <algorithm>

#include "attend/ops/linear.h"
#include "attend/ops/weight_format.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/product.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

/// Number of rows per chunk; only one chunk's logits are in memory. Each chunk packs the weights once, and reads and
/// writes the weights' gradient once: on a CPU, from 512 rows on, both cost a few percent. A GPU needs larger products.
/// With very many classes, a limit on the logits (128 MiB of f32; 1 GiB on a GPU) makes the chunks smaller.
int64_t rows_per_chunk(int64_t classes, DType dtype, Device device) {
  if (device == kCpu) return std::clamp<int64_t>((int64_t{1} << 25) / classes, 64, 512);
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  return std::clamp<int64_t>((int64_t{1} << 30) / (classes * bytes), 1024, 32768);
}

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target,
           const LossOptions& options) {
  constexpr const char* kOp = "linear_cross_entropy";
  require_float(x, kOp);
  if (!is_reduced(weight)) require_float(weight, kOp, "weight");
  require<ShapeError>(weight.rank() == 2 && weight.dim(0) >= 1, kOp,
                      ": weight must be [classes, dim] with at least one class, got shape ", weight.shape());
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) == weight.dim(1), kOp, ": x has shape ", x.shape(),
                      " but weight [classes, dim] is ", weight.shape());
  require<ShapeError>(!bias || bias.shape() == Shape{weight.dim(0)}, kOp, ": bias must be [", weight.dim(0),
                      "] because weight is ", weight.shape(), ", got ", bias.shape());
  if (!is_reduced(weight)) require_parameter(x, weight, kOp, "weight");
  require<ShapeError>(!is_reduced(weight) || (!needs_grad(x) && !needs_grad(weight) && !needs_grad(bias)), kOp,
                      ": a weight of ", weight.dtype(), " is for inference only and has no gradient");
  require_parameter(x, bias, kOp, "bias");
  require<ShapeError>(static_cast<bool>(target), kOp, ": target is empty");
  require<ShapeError>(target.dtype() == DType::i64, kOp, ": target must be i64, got ", target.dtype());
  const Shape leading(x.shape().span().first(static_cast<size_t>(x.rank() - 1)));
  require<ShapeError>(target.shape() == leading, kOp, ": x ", x.shape(), " needs a target of shape ", leading, ", got ",
                      target.shape());
  require<ShapeError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, kOp,
                      ": label_smoothing must be in [0, 1], got ", options.label_smoothing);
}

/// The rows for which logits are computed, and their indices in x.
struct Counted {
  Tensor x;       // [count, dim]
  Tensor target;  // [count]
  Tensor places;  // row indices [count], or empty if these are all rows
};

/// Leaves out the ignored rows. On a GPU they are left out only if they are at least half of the rows, because a few
/// more rows cost less there than shapes that change from batch to batch, and only if the target is on the host.
Counted counted_rows(const Tensor& x, const Tensor& target, int64_t classes, int64_t ignore_index) {
  const Tensor on_x = checked_target(target, x.device(), classes, ignore_index, "linear_cross_entropy");
  if (target.device() != kCpu) {
    const Tensor matrix = as_matrix(x.detach());
    return {matrix, reshaped(on_x, {matrix.dim(0)}), {}};
  }
  std::vector<int64_t> chosen, places;
  const std::vector<int64_t> all = target.to_vector<int64_t>();
  for (size_t row = 0; row < all.size(); ++row) {
    if (all[row] == ignore_index) continue;
    chosen.push_back(all[row]);
    places.push_back(static_cast<int64_t>(row));
  }
  const Tensor matrix = as_matrix(x.detach());
  const auto count = static_cast<int64_t>(chosen.size());
  if (count == matrix.dim(0) || (x.device() != kCpu && 2 * count > matrix.dim(0))) {
    return {matrix, reshaped(on_x, {matrix.dim(0)}), {}};
  }
  const Tensor index = to(tensor(places, {count}), x.device());
  const Tensor kept = empty({count, x.dim(-1)}, {x.dtype(), x.device()});
  kernels(x.device()).index.take_rows(rows(dense(matrix)), rows(index), rows(kept));
  return {kept, to(tensor(chosen, {count}), x.device()), index};
}

/// Which inputs need a gradient.
struct Wanted {
  bool x = false, weight = false, bias = false;
  bool any() const { return x || weight || bias; }
};

Tensor row_range(const Tensor& x, int64_t begin, int64_t end) {
  Shape shape = x.shape();
  shape[0] = end - begin;
  return x.as_strided(shape, x.strides(), x.offset() + begin * x.strides()[0]);
}

/// The rows of a matrix whose rows may be padded.
Rows padded_rows(const Tensor& x) { return {x.raw(), x.dtype(), x.dim(0), x.dim(1), x.strides()[0]}; }

/// Computes the loss and its gradients chunk by chunk.
class ChunkedLoss {
 public:
  ChunkedLoss(const Counted& counted, const Tensor& weight, const Tensor& bias, const CrossEntropyOptions& options,
              Wanted wanted)
      : in_(counted), weight_(weight), bias_(bias), options_(options), wanted_(wanted) {
    if (wanted.x) dx = empty_like(in_.x);
    if (wanted.weight) dweight = in_.x.dim(0) > 0 ? empty_like(weight) : zeros_like(weight);
    if (wanted.bias) dbias = zeros_like(bias);
    loss = empty({}, {sum_dtype(in_.x.dtype()), weight.device()});
    run();
  }

  Tensor loss;                ///< mean over the rows that are not ignored
  Tensor dx, dweight, dbias;  ///< gradients of the mean loss; dx has only the counted rows

 private:
  void run() {
    const int64_t count = in_.x.dim(0), most = rows_per_chunk(weight_.dim(0), dtype_, weight_.device());
    const int64_t chunks = (count + most - 1) / most;
    const CrossEntropyKernels& kernel = kernels(weight_.device()).cross_entropy;
    kernel.count(rows(in_.target), options_.ignore_index, rows(count_));
    for (int64_t chunk = 0; chunk < chunks; ++chunk) add_rows(count * chunk / chunks, count * (chunk + 1) / chunks);
    kernel.mean(rows(losses_), rows(count_), rows(loss));
  }

  void add_rows(int64_t begin, int64_t end) {
    const Tensor x = row_range(in_.x, begin, end), target = dense(row_range(in_.target, begin, end));
    // Without gradients, reduced and f32 weights use the same op, so that bf16 weights give the same bits as f32 ones.
    const Tensor operand = wanted_.any() ? to(x, dtype_) : x;
    const Tensor logits = is_reduced(weight_) || !wanted_.any() ? linear(x, weight_, bias_) : logits_of(operand);
    const Tensor losses = row_range(losses_, begin, end);
    const CrossEntropyKernels& kernel = kernels(x.device()).cross_entropy;
    if (!wanted_.any()) {
      const Tensor lse = empty({end - begin}, {sum_dtype(logits.dtype()), x.device()});
      kernel.forward(rows(logits), rows(target), options_, rows(losses), rows(lse));
      return;
    }
    // The gradient overwrites the logits.
    kernel.with_gradient(padded_rows(logits), rows(target), rows(count_), options_, rows(losses), padded_rows(logits));
    add_gradients(operand, logits, begin);
  }

  /// On a GPU, rows begin at multiples of 128 bytes: without this, GPT-2's products with 50,257 classes take five times
  /// as long.
  Tensor logits_of(const Tensor& x) const {
    const int64_t classes = weight_.dim(0), unit = x.device() == kCpu ? 1 : 128 / static_cast<int64_t>(size_of(dtype_));
    const int64_t stride = (classes + unit - 1) / unit * unit;
    const Tensor padded = empty({x.dim(0), stride}, {dtype_, x.device()});
    const Tensor logits = padded.as_strided({x.dim(0), classes}, {stride, 1}, padded.offset());
    MatmulOptions options = matmul_options(precision_, dtype_);
    options.bias = view_or_empty(bias_);
    kernels(x.device()).matmul.multiply(x.view(), transposed(rounded_, 0, 1).view(), logits.view(), options);
    return logits;
  }

  void add_gradients(const Tensor& x, const Tensor& dlogits, int64_t begin) {
    const Kernels& table = kernels(x.device());
    MatmulOptions options = matmul_options(precision_, dtype_);
    if (wanted_.x) {
      const Tensor part = row_range(dx, begin, begin + x.dim(0));
      table.matmul.multiply(dlogits.view(), rounded_.view(), part.view(), options);
    }
    if (wanted_.weight) {
      options.accumulate = begin > 0;
      table.matmul.multiply(transposed(dlogits, 0, 1).view(), x.view(), dweight.view(), options);
    }
    if (wanted_.bias) {
      table.elementwise.accumulate(reduced_to(dlogits, dbias.shape(), dbias.dtype()).view(), dbias.view());
    }
  }

  const Counted& in_;
  const Tensor& weight_;
  const Tensor& bias_;
  const CrossEntropyOptions options_;
  const Wanted wanted_;
  const DType dtype_ = activation_dtype(in_.x);  // of the products' operands and of the logits
  const Tensor rounded_ = wanted_.any() ? to(weight_, dtype_) : Tensor{};
  const Tensor losses_ = empty({in_.x.dim(0)}, {DType::f64, in_.x.device()});
  const Tensor count_ = empty({}, {DType::i64, in_.x.device()});
  const Precision precision_ = current_precision();
};

/// Moves the counted rows' gradients to their rows of x; the ignored rows' gradients are 0.
Tensor spread_out(const Tensor& dx, const Tensor& places, const Shape& shape) {
  if (!places) return reshaped(dx, shape);
  const Tensor all = zeros(shape, {dx.dtype(), dx.device()});
  kernels(dx.device()).index.take_rows_backward(rows(dx), rows(places), rows(all));
  return all;
}

/// Multiplies `gradient` by the scalar `factor` in place.
Tensor scaled(const Tensor& gradient, const Tensor& factor) {
  if (!gradient || is_seed(factor)) return gradient;
  Strides strides = gradient.strides();
  for (int64_t axis = 0; axis < gradient.rank(); ++axis) strides[axis] = 0;
  const Tensor spread = factor.as_strided(gradient.shape(), strides, factor.offset());
  kernels(gradient.device()).elementwise.binary(BinaryKind::multiply, gradient.view(), spread.view(), gradient.view());
  return gradient;
}

}  // namespace

// With g = (softmax(x Wᵀ + b) − t) / count, t the smoothed target: dx = g W, dW = gᵀ x, db = Σ_rows g, all times dloss.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target,
                            LossOptions options) {
  check(x, weight, bias, target, options);
  const Counted counted = counted_rows(x, target, weight.dim(0), options.ignore_index);
  const ChunkedLoss chunks(counted, weight.detach(), bias ? bias.detach() : Tensor{},
                           {options.label_smoothing, options.ignore_index},
                           {.x = needs_grad(x), .weight = needs_grad(weight), .bias = needs_grad(bias)});
  return record("linear_cross_entropy", chunks.loss, {x, weight, bias},
                [dx = chunks.dx, dweight = chunks.dweight, dbias = chunks.dbias, places = counted.places,
                 shape = x.shape()](const Tensor& dloss) -> Gradients {
                  return {dx ? spread_out(scaled(dx, dloss), places, shape) : Tensor{}, scaled(dweight, dloss),
                          scaled(dbias, dloss)};
                });
}

}  // namespace attend
