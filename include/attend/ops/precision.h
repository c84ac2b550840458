#pragma once

#include "attend/base/device.h"

namespace attend {

/// In what the operands of linear layers are multiplied. Sums, parameters and everything between are f32 either way.
enum class MatmulPrecision { f32, bf16 };

/// Whether the device multiplies bf16 at all.
bool has_bf16(Device device = kCpu);

/// While alive, linear() and linear_cross_entropy() called on this thread multiply in this precision, and so do their
/// gradients whenever those run. f64 tensors are not affected. Throws DeviceError where the device has no bf16.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision, Device device = kCpu);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  MatmulPrecision before_;
};

/// What holds now on this thread.
MatmulPrecision matmul_precision();

}  // namespace attend
