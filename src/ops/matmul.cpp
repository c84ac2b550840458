#include "attend/ops/matmul.h"

#include "ops/broadcast.h"
#include "ops/check.h"
#include "ops/product.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

Shape leading(const Shape& shape) { return Shape(shape.span().first(static_cast<size_t>(shape.rank() - 2))); }

Shape with_matrix(const Shape& batch, int64_t rows, int64_t cols) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(cols);
  return shape;
}

/// The gradient aᵀ · dy of a matrix b [k, n] that the whole batch shares. Computes one product over all rows of the
/// batch, instead of one product per matrix and their sum.
Tensor shared_gradient(const Tensor& a, const Tensor& dy) {
  return product(transposed(as_matrix(a), 0, 1), as_matrix(dy));
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options) {
  const Shape batch = broadcast_shapes(leading(a.shape()), leading(b.shape()), "matmul");
  const int64_t m = a.dim(-2), k = a.dim(-1), n = b.dim(-1);
  const Tensor c =
      options.sum ? options.sum : empty(with_matrix(batch, m, n), {options.result.value_or(a.dtype()), a.device()});
  MatmulOptions how = matmul_options(options.precision, a.dtype());
  how.accumulate = static_cast<bool>(options.sum);
  how.bias = view_or_empty(options.bias);
  how.residual = view_or_empty(options.residual);
  if (options.row_sums) how.row_sums = options.row_sums.view();
  kernels(a.device())
      .matmul.multiply(stretched(a, with_matrix(batch, m, k), "matmul").view(),
                       stretched(b, with_matrix(batch, k, n), "matmul").view(), c.view(), how);
  return c;
}

// c = a b: da = dc bᵀ, db = aᵀ dc, each summed over the axes its operand was broadcast along.
Tensor matmul(const Tensor& a, const Tensor& b) {
  require_float(a, "matmul", "a");
  require_float(b, "matmul", "b");
  require<ShapeError>(a.rank() >= 2 && b.rank() >= 2 && a.dim(-1) == b.dim(-2),
                      "matmul: expected a [..., m, k] and b "
                      "[..., k, n], got ",
                      a.shape(), " and ", b.shape());
  require<ShapeError>(a.dtype() == b.dtype(), "matmul: a is ", a.dtype(), " but b is ", b.dtype());
  require<DeviceError>(a.device() == b.device(), "matmul: a is on ", a.device(), " but b is on ", b.device());
  return record("matmul", product(a, b), {a, b},
                [left = a.detach(), right = b.detach(), need_a = needs_grad(a),
                 need_b = needs_grad(b)](const Tensor& dy) -> Gradients {
                  Gradients gradients(2);
                  if (need_a) gradients[0] = reduced_to(product(dy, transposed(right, -1, -2)), left.shape());
                  if (need_b && right.rank() == 2)
                    gradients[1] = shared_gradient(left, dy);
                  else if (need_b)
                    gradients[1] = reduced_to(product(transposed(left, -1, -2), dy), right.shape());
                  return gradients;
                });
}

}  // namespace attend
