#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "attend/base/random.h"
#include "attend/tensor/tensor.h"

namespace attend {

/// Where tensors are created if no device is given: the CPU unless set_default_device() chose another. Integers and
/// masks made from host values stay on the host: ops copy them to the device of their data.
Device default_device();
void set_default_device(Device device);

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = default_device();
};

Tensor empty(const Shape& shape, TensorOptions options = {});  ///< uninitialised
Tensor empty_like(const Tensor& tensor);                       ///< uninitialised, dense; same shape, dtype and device
Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor zeros_like(const Tensor& tensor);
Tensor ones(const Shape& shape, TensorOptions options = {});

/// Where from_span() and tensor() put values of type T: floats on the default device, all others on the host.
template <class T>
Device device_for() {
  return std::is_floating_point_v<T> ? default_device() : kCpu;
}
/// Copies host values into a new tensor of dtype dtype_of<T>(). Throws ShapeError unless there are shape.numel()
/// values.
template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, Device device = device_for<T>());
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  return from_span<T>(std::span<const T>(values), shape);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape) {
  return from_span<T>(std::span<const T>(values.begin(), values.size()), shape);
}
/// The numbers 0, 1, …, count-1 as i64 [count].
Tensor arange(int64_t count);
/// A boolean tensor from host bytes (0 = false).
Tensor bool_tensor(std::span<const uint8_t> values, const Shape& shape);

/// Random numbers, uniform in [low, high) or normally distributed. The same stream gives the same numbers.
Tensor uniform(const Shape& shape, double low, double high, RandomStream stream, TensorOptions options = {});
Tensor normal(const Shape& shape, double mean, double deviation, RandomStream stream, TensorOptions options = {});

/// A dense copy with another dtype or on another device. Returns the tensor itself if it already has this dtype or
/// device. Not recorded. An int8 matrix with scales can be moved whole, not in part.
Tensor to(const Tensor& tensor, DType dtype);
Tensor to(const Tensor& tensor, Device device);

/// The tensor on a device, for inputs that stay on the host and are read by many ops: token ids, targets, lengths,
/// masks, tables. Ops call it, so that such inputs may be on the host whatever the device of the data. The first call
/// copies the whole storage and keeps the copy with it; later calls, also for other views of the storage, use that
/// copy. data<T>() for writing and copy_values() drop the copy: do not write through a span that was taken before.
Tensor on_device(const Tensor& tensor, Device device);

/// Copies the elements of `source` into `target`, converting the dtype and moving between devices. Not recorded. Throws
/// ShapeError if the shapes differ, if either tensor is an int8 matrix with scales, or if `target` is read-only.
void copy_values(const Tensor& source, const Tensor& target);

}  // namespace attend
