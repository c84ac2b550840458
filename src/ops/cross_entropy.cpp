#include "attend/ops/cross_entropy.h"

#include "ops/check.h"

namespace attend {

Tensor checked_target(const Tensor& target, Device device, int64_t classes, int64_t ignore_index, const char* op) {
  require<DeviceError>(target.device() == kCpu || target.device() == device, op, ": target is on ", target.device(),
                       " but the other inputs are on ", device);
  if (is_trusted(target)) return dense(target);
  const Tensor host = to(dense(target), kCpu);
  const auto values = host.data<const int64_t>();
  for (size_t row = 0; row < values.size(); ++row) {
    require<ShapeError>((values[row] >= 0 && values[row] < classes) || values[row] == ignore_index, op, ": target ",
                        values[row], " at row ", row, " is not in [0, ", classes, ") nor ignore_index ", ignore_index);
  }
  return on_device(dense(target), device);
}

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
  require<ShapeError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                      "cross_entropy: label_smoothing must be in [0, 1], got ", options.label_smoothing);
}

}  // namespace

// dlogits = dloss / count · (softmax − t), t the smoothed target.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, LossOptions options) {
  check(logits, target, options);
  const CrossEntropyOptions kernel_options{options.label_smoothing, options.ignore_index};
  const Tensor x = dense(logits);
  const Tensor chosen = checked_target(target, x.device(), x.dim(-1), options.ignore_index, "cross_entropy");
  const TensorOptions statistics{sum_dtype(x.dtype()), x.device()};
  const Tensor loss = empty({}, statistics), lse = empty(target.shape(), statistics);
  const Tensor losses = empty(target.shape(), {DType::f64, x.device()}), count = empty({}, {DType::i64, x.device()});
  const CrossEntropyKernels& kernel = kernels(x.device()).cross_entropy;
  kernel.count(rows(chosen), options.ignore_index, rows(count));
  kernel.forward(rows(x), rows(chosen), kernel_options, rows(losses), rows(lse));
  kernel.mean(rows(losses), rows(count), rows(loss));
  return record("cross_entropy", loss, {logits}, [=](const Tensor& dloss) -> Gradients {
    const Tensor dx = empty_like(x);
    kernels(x.device())
        .cross_entropy.backward(rows(dense(dloss)), rows(x), rows(chosen), rows(lse), rows(count), kernel_options,
                                rows(dx));
    return {dx};
  });
}

}  // namespace attend
