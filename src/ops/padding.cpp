#include "attend/ops/padding.h"

#include "ops/check.h"
#include "ops/reshaped.h"

namespace attend {
namespace {

Tensor cleared(const Tensor& x, const Tensor& lengths) {
  const Tensor in = dense(x), y = empty_like(x);
  if (x.numel() == 0) return y;
  const Shape shape{x.dim(0), x.dim(1), x.numel() / (x.dim(0) * x.dim(1))};
  kernels(x.device()).elementwise.zero_padding(reshaped(in, shape).view(), rows(lengths), reshaped(y, shape).view());
  return y;
}

}  // namespace

Tensor zero_padding(const Tensor& x, const Tensor& lengths) {
  require_float(x, "zero_padding");
  require<ShapeError>(x.rank() >= 2, "zero_padding: expected [batch, length, …], got shape ", x.shape());
  require<ShapeError>(lengths && lengths.dtype() == DType::i64 && lengths.shape() == Shape{x.dim(0)},
                      "zero_padding: lengths must be i64 [", x.dim(0), "], got ", lengths.dtype(), " ",
                      lengths.shape());
  if (!is_trusted(lengths)) {
    for (int64_t count : lengths.to_vector<int64_t>()) {
      require<ShapeError>(count >= 0 && count <= x.dim(1), "zero_padding: a length of ", count, " is outside 0 … ",
                          x.dim(1));
    }
  }
  const Tensor counts = on_device(dense(lengths), x.device());
  return record("zero_padding", cleared(x, counts), {x},
                [counts](const Tensor& dy) -> Gradients { return {cleared(dy, counts)}; });
}

}  // namespace attend
