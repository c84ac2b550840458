#pragma once

#include "attend/base/dtype.h"
#include "attend/base/shape.h"

namespace attend {

/// A non-owning reference to typed, strided memory on a device, as kernels take it. The host may be unable to read
/// `data`.
template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;

  explicit operator bool() const { return data != nullptr; }
  int64_t rank() const { return shape.rank(); }
  operator BasicView<const void*>() const { return {data, dtype, shape, strides}; }  // NOLINT
};
using View = BasicView<void*>;
using ConstView = BasicView<const void*>;

/// A non-owning reference to a matrix of `rows` × `cols`. Each row is contiguous, and consecutive rows are `stride`
/// elements apart.
template <class Pointer>
struct BasicRows {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0, cols = 0, stride = 0;

  explicit operator bool() const { return data != nullptr; }
  int64_t numel() const { return rows * cols; }
  operator BasicRows<const void*>() const { return {data, dtype, rows, cols, stride}; }  // NOLINT
};
using Rows = BasicRows<void*>;
using ConstRows = BasicRows<const void*>;

}  // namespace attend
