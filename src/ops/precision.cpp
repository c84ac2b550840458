#include "attend/ops/precision.h"

#include "backend/kernels.h"

namespace attend {
namespace {

thread_local MatmulPrecision current = MatmulPrecision::f32;
thread_local bool batch_invariant = false;

}  // namespace

bool has_bf16(Device device) { return kernels(device).matmul.has_bf16(); }

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision, Device device) : before_(current) {
  require<DeviceError>(precision == MatmulPrecision::f32 || has_bf16(device), kNoBf16);
  current = precision;
}
MatmulPrecisionScope::~MatmulPrecisionScope() { current = before_; }

MatmulPrecision matmul_precision() { return current; }

BatchInvariantScope::BatchInvariantScope() : before_(batch_invariant) { batch_invariant = true; }
BatchInvariantScope::~BatchInvariantScope() { batch_invariant = before_; }

bool is_batch_invariant() { return batch_invariant; }

}  // namespace attend
