#include "attend/ops/padding.h"

#include "attend/ops/shape.h"
#include "ops/check.h"

namespace attend {
namespace {

Tensor cleared(const Tensor& x, const std::vector<int64_t>& lengths) {
  const NoGrad no_grad;
  const Tensor y = x.clone();
  for (int64_t b = 0; b < x.dim(0); ++b) {
    const Tensor padding = slice(select(y, 0, b), 0, lengths[static_cast<size_t>(b)], x.dim(1));
    if (padding.numel() > 0) kernels(x.device()).elementwise.fill(padding.view(), 0);
  }
  return y;
}

}  // namespace

Tensor zero_padding(const Tensor& x, const Tensor& lengths) {
  require_float(x, "zero_padding");
  require<ShapeError>(x.rank() >= 2, "zero_padding: expected [batch, length, …], got shape ", x.shape());
  require<ShapeError>(lengths && lengths.dtype() == DType::i64 && lengths.shape() == Shape{x.dim(0)},
                      "zero_padding: lengths must be i64 [", x.dim(0), "], got ", lengths.dtype(), " ",
                      lengths.shape());
  const std::vector<int64_t> counts = lengths.to_vector<int64_t>();
  for (int64_t count : counts) {
    require<ShapeError>(count >= 0 && count <= x.dim(1), "zero_padding: a length of ", count, " is outside 0 … ",
                        x.dim(1));
  }
  return record("zero_padding", cleared(x, counts), {x},
                [counts](const Tensor& dy) -> Gradients { return {cleared(dy, counts)}; });
}

}  // namespace attend
