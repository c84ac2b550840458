#pragma once

#include "attend/base/device.h"

namespace attend {

/// Precision of linear layers. Sums, parameters and their gradients are f32 in each.
enum class Precision {
  f32,   ///< exact f32 products
  tf32,  ///< on a GPU: products round f32 operands to TF32, which has 10 bits after the point
  /// On the CPU, products round f32 operands to bf16, and activations stay f32. On a GPU, linear() and embedding()
  /// return bf16; all other ops compute in f32 and return the dtype of their inputs. Statistics and losses are f32.
  /// Weights stored as bf16 (attend/ops/weight_format.h) need no rounding.
  bf16,
};

/// Whether the device has bf16 products.
bool has_bf16(Device device = kCpu);

/// While a PrecisionScope is alive, linear() and linear_cross_entropy() on this thread multiply in its precision. Their
/// gradients use the same precision, even after the scope has ended. f64 tensors are not affected. Throws DeviceError
/// if the device does not support the precision.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, Device device = kCpu);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision before_;
};

/// The current precision of this thread; f32 outside any PrecisionScope.
Precision current_precision();

/// While a BatchInvariantScope is alive, an unrecorded linear() or attention() on this thread gives bitwise identical
/// results for a row or a query, independent of the number of other rows or queries. On the CPU they always do, except
/// for products of f64 or of f32 weights in bf16 precision. On a GPU, a few rows or queries otherwise sum in a
/// different order that reads memory faster.
class BatchInvariantScope {
 public:
  BatchInvariantScope();
  ~BatchInvariantScope();
  BatchInvariantScope(const BatchInvariantScope&) = delete;
  BatchInvariantScope& operator=(const BatchInvariantScope&) = delete;

 private:
  bool before_;
};

/// Whether a BatchInvariantScope is alive on this thread, and batch invariance is on.
bool is_batch_invariant();

/// Turns batch invariance on (the default) or off for the whole process. Off, a BatchInvariantScope has no effect.
void set_batch_invariance(bool on);

}  // namespace attend
