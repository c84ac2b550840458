#include "attend/ops/cross_entropy.h"

#include "ops/check.h"

namespace attend {
namespace {

void check(const Tensor& logits, const Tensor& target, const LossOptions& options) {
  require_float(logits, "cross_entropy", "logits");
  require<ShapeError>(logits.rank() >= 1 && logits.dim(-1) >= 1, "cross_entropy: logits must have classes, got shape ",
                      logits.shape());
  require<ShapeError>(static_cast<bool>(target), "cross_entropy: target is empty");
  require<ShapeError>(target.dtype() == DType::i64, "cross_entropy: target must be i64, got ", target.dtype());
  const Shape leading(logits.shape().span().first(static_cast<size_t>(logits.rank() - 1)));
  require<ShapeError>(target.shape() == leading, "cross_entropy: logits ", logits.shape(), " need a target of shape ",
                      leading, ", got ", target.shape());
  require<DeviceError>(target.device() == logits.device(), "cross_entropy: target is on ", target.device(),
                       " but logits are on ", logits.device());
  require<ShapeError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                      "cross_entropy: label_smoothing must be in [0, 1], got ", options.label_smoothing);
}

}  // namespace

// dlogits = dloss / count · (softmax − t), t the smoothed target.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, LossOptions options) {
  check(logits, target, options);
  const CrossEntropyOptions kernel_options{options.label_smoothing, options.ignore_index};
  const Tensor x = dense(logits), chosen = dense(target);
  const Tensor loss = empty({}, {x.dtype(), x.device()});
  const Tensor lse = empty(target.shape(), {x.dtype(), x.device()});
  const int64_t count =
      kernels(x.device()).cross_entropy.forward(rows(x), rows(chosen), kernel_options, rows(loss), rows(lse));
  return record("cross_entropy", loss, {logits}, [=](const Tensor& dloss) -> Gradients {
    const Tensor dx = empty_like(x);
    kernels(x.device())
        .cross_entropy.backward(rows(dense(dloss)), rows(x), rows(chosen), rows(lse), count, kernel_options, rows(dx));
    return {dx};
  });
}

}  // namespace attend
