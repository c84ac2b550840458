#pragma once

#include "attend/base/device.h"

namespace attend {

/// In what the operands of linear layers are multiplied. Sums, parameters and everything between are f32 either way.
/// Weights that are held in bf16 (attend/ops/weight_format.h) are exact in f32: it is the other operand that bf16
/// rounds.
enum class Precision { f32, bf16 };

/// Whether the device multiplies bf16 at all.
bool has_bf16(Device device = kCpu);

/// While alive, linear() and linear_cross_entropy() called on this thread multiply in this precision, and so do their
/// gradients whenever those run. f64 tensors are not affected. Throws DeviceError where the device has no bf16.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, Device device = kCpu);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision before_;
};

/// What holds now on this thread.
Precision current_precision();

/// While alive, linear() and attention() called on this thread outside the recorded graph give a row, or a query, the
/// same bits however many are computed beside it. Otherwise products of up to 16 rows, and attention of up to 6
/// queries, add up in an order of their own that reads memory faster. f64 products are not affected.
class BatchInvariantScope {
 public:
  BatchInvariantScope();
  ~BatchInvariantScope();
  BatchInvariantScope(const BatchInvariantScope&) = delete;
  BatchInvariantScope& operator=(const BatchInvariantScope&) = delete;

 private:
  bool before_;
};

/// Whether a BatchInvariantScope is alive on this thread.
bool is_batch_invariant();

}  // namespace attend
