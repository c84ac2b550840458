#include "attend/ops/precision.h"

#include <atomic>

#include "backend/kernels.h"

namespace attend {
namespace {

thread_local Precision current = Precision::f32;
thread_local bool batch_invariant = false;
std::atomic<bool> invariance_is_on = true;

}  // namespace

bool has_bf16(Device device) { return kernels(device).matmul.has_bf16(); }

PrecisionScope::PrecisionScope(Precision precision, Device device) : before_(current) {
  require<DeviceError>(precision != Precision::tf32 || device != kCpu, "tf32 needs a GPU");
  require<DeviceError>(precision != Precision::bf16 || has_bf16(device), kNoBf16);
  current = precision;
}
PrecisionScope::~PrecisionScope() { current = before_; }

Precision current_precision() { return current; }

BatchInvariantScope::BatchInvariantScope() : before_(batch_invariant) { batch_invariant = true; }
BatchInvariantScope::~BatchInvariantScope() { batch_invariant = before_; }

bool is_batch_invariant() { return batch_invariant && invariance_is_on; }
void set_batch_invariance(bool on) { invariance_is_on = on; }

}  // namespace attend
