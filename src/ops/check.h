#pragma once

#include "attend/autograd/autograd.h"
#include "attend/tensor/creation.h"
#include "attend/tensor/tensor.h"
#include "backend/kernels.h"

// What every op does before it calls a kernel.
namespace attend {

/// Throws ShapeError naming `op` and `argument` unless the tensor holds f32 or f64.
inline void require_float(const Tensor& x, const char* op, const char* argument = "x") {
  require<ShapeError>(static_cast<bool>(x), op, ": ", argument, " is empty");
  require<ShapeError>(x.dtype() == DType::f32 || x.dtype() == DType::f64, op, ": ", argument,
                      " must be f32 or f64, got ", x.dtype());
}

/// Throws unless `other` has x's dtype and device; an empty `other` is fine.
inline void require_same_kind(const Tensor& x, const Tensor& other, const char* op, const char* argument) {
  if (!other) return;
  require<ShapeError>(other.dtype() == x.dtype(), op, ": ", argument, " is ", other.dtype(), " but x is ", x.dtype());
  require<DeviceError>(other.device() == x.device(), op, ": ", argument, " is on ", other.device(), " but x is on ",
                       x.device());
}

/// The tensor itself where it is dense, else a dense copy, outside the graph: for kernels that want rows.
inline Tensor dense(const Tensor& x) { return x.is_contiguous() ? x.detach() : x.clone(); }

}  // namespace attend
