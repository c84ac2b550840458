#include "attend/ops/embedding.h"

#include "attend/ops/weight_format.h"
#include "ops/check.h"
#include "ops/weight_matrix.h"

namespace attend {
namespace {

void require_index(const Tensor& x, const Tensor& index, const char* op, const char* argument) {
  require<ShapeError>(static_cast<bool>(index), op, ": ", argument, " is empty");
  require<ShapeError>(index.dtype() == DType::i64, op, ": ", argument, " must be i64, got ", index.dtype());
  require<DeviceError>(index.device() == kCpu || index.device() == x.device(), op, ": ", argument, " is on ",
                       index.device(), " but x is on ", x.device());
}

}  // namespace

// y_i = W[ids_i]: dW[w] = Σ dy_i over the i with ids_i = w.
Tensor embedding(const Tensor& ids, const Tensor& weight) {
  if (!is_reduced(weight)) require_float(weight, "embedding", "weight");
  require<ShapeError>(weight.rank() == 2, "embedding: weight must be [vocab_size, dim], got shape ", weight.shape());
  require_index(weight, ids, "embedding", "ids");
  const Tensor index = checked_index(ids, weight.device(), weight.dim(0), "embedding");
  Shape shape = ids.shape();
  shape.push_back(weight.dim(1));
  // On a GPU a matrix of bf16 that needs a gradient consists of activations, not of weights held for inference.
  if (is_reduced(weight) && !(weight.device() != kCpu && weight.dtype() == DType::bf16 && needs_grad(weight))) {
    require<ShapeError>(!needs_grad(weight), "embedding: a weight of ", weight.dtype(),
                        " is for inference only and has no gradient");
    const Tensor y = empty(shape, {DType::f32, weight.device()});
    kernels(weight.device()).weights.take_rows(weight_matrix(dense(weight)), rows(index), rows(y));
    return y;
  }
  const Tensor y = empty(shape, {activation_dtype(weight), weight.device()});
  kernels(weight.device()).index.take_rows(rows(dense(weight)), rows(index), rows(y));
  return record(
      "embedding", y, {weight},
      [index, like = weight.shape(), dtype = weight.dtype()](const Tensor& dy, const Gradients& sums) -> Gradients {
        const Tensor dweight = sums[0] ? sums[0] : zeros(like, {dtype, dy.device()});
        kernels(dy.device()).index.take_rows_backward(rows(dense(dy)), rows(index), rows(dweight));
        return {dweight};
      });
}

Tensor gather(const Tensor& x, const Tensor& index) {
  require_float(x, "gather");
  require_index(x, index, "gather", "index");
  require<ShapeError>(x.rank() >= 1 && index.rank() == x.rank() && x.shape().with_last(0) == index.shape().with_last(0),
                      "gather: index must have x's leading shape, got x ", x.shape(), " and index ", index.shape());
  const Tensor places = checked_index(index, x.device(), x.dim(-1), "gather");
  const Tensor y = empty(index.shape(), {x.dtype(), x.device()});
  kernels(x.device()).index.gather_last(rows(dense(x)), rows(places), rows(y));
  return record("gather", y, {x}, [places, shape = x.shape()](const Tensor& dy) -> Gradients {
    const Tensor dx = zeros(shape, {dy.dtype(), dy.device()});
    kernels(dy.device()).index.gather_last_backward(rows(dense(dy)), rows(places), rows(dx));
    return {dx};
  });
}

}  // namespace attend
