#pragma once

#include "attend/autograd/autograd.h"
#include "attend/ops/precision.h"
#include "attend/tensor/creation.h"
#include "attend/tensor/tensor.h"
#include "backend/kernels.h"
#include "ops/trusted_indices.h"

// Checks and conversions that ops do before they call a kernel.
namespace attend {

inline bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// The dtype of sums and statistics over elements of `dtype`, such as a loss or a mean: f32 for the 16-bit types.
inline DType sum_dtype(DType dtype) { return is_16_bit(dtype) ? DType::f32 : dtype; }

/// The dtype of activations that a layer computes from x: bf16 for f32 on a GPU under PrecisionScope(bf16), else x's.
inline DType activation_dtype(const Tensor& x) {
  const bool is_rounded = current_precision() == Precision::bf16 && x.device() != kCpu && x.dtype() == DType::f32;
  return is_rounded ? DType::bf16 : x.dtype();
}

/// Throws a ShapeError that names `op` and `argument` unless the tensor is f32 or f64, or has 16 bits on a GPU.
inline void require_float(const Tensor& x, const char* op, const char* argument = "x") {
  require<ShapeError>(static_cast<bool>(x), op, ": ", argument, " is empty");
  require<ShapeError>(
      x.dtype() == DType::f32 || x.dtype() == DType::f64 || (is_16_bit(x.dtype()) && x.device() != kCpu), op, ": ",
      argument, " must be f32 or f64, got ", x.dtype());
}

/// Throws ShapeError or DeviceError unless `other` has x's dtype and device, or is empty.
inline void require_same_kind(const Tensor& x, const Tensor& other, const char* op, const char* argument) {
  if (!other) return;
  require<ShapeError>(other.dtype() == x.dtype(), op, ": ", argument, " is ", other.dtype(), " but x is ", x.dtype());
  require<DeviceError>(other.device() == x.device(), op, ": ", argument, " is on ", other.device(), " but x is on ",
                       x.device());
}

/// The same for a parameter, which may be f32 if x has 16 bits.
inline void require_parameter(const Tensor& x, const Tensor& parameter, const char* op, const char* argument) {
  if (!parameter) return;
  require<ShapeError>(parameter.dtype() == x.dtype() || parameter.dtype() == sum_dtype(x.dtype()), op, ": ", argument,
                      " is ", parameter.dtype(), " but x is ", x.dtype());
  require<DeviceError>(parameter.device() == x.device(), op, ": ", argument, " is on ", parameter.device(),
                       " but x is on ", x.device());
}

/// `index` on x's device. Throws ShapeError, which names `op`, unless all its elements are in [0, limit). An index on
/// the host is checked there; one on a GPU needs a synchronisation, unless a TrustedIndices is alive.
inline Tensor checked_index(const Tensor& index, Device device, int64_t limit, const char* op) {
  const Tensor dense = index.is_contiguous() ? index.detach() : index.clone();
  if (!is_trusted(dense)) kernels(dense.device()).index.check(rows(dense), limit, op);
  return on_device(dense, device);
}

/// `target` on a device. Throws ShapeError unless each element is a class or ignore_index.
Tensor checked_target(const Tensor& target, Device device, int64_t classes, int64_t ignore_index, const char* op);

/// x itself if it is dense, else a dense copy; not recorded. For kernels that take rows.
inline Tensor dense(const Tensor& x) { return x.is_contiguous() ? x.detach() : x.clone(); }

}  // namespace attend
