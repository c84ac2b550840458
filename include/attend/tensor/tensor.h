#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/base/device.h"
#include "attend/base/dtype.h"
#include "attend/base/shape.h"
#include "attend/base/view.h"

namespace attend {

struct Variable;  // a tensor's place in the recorded graph: see attend/autograd/autograd.h

/// Owns, or keeps alive, a block of device memory.
class Storage {
 public:
  /// Fresh, uninitialised memory.
  Storage(size_t bytes, Device device);
  /// Memory owned by someone else (a mapped file), kept alive through `owner`; never written.
  Storage(const void* data, size_t bytes, Device device, std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_read_only() const { return owner_ != nullptr; }  ///< memory of someone else

  /// What a matrix quantised to i8 carries along: see attend/ops/weight_format.h. Null for everything else.
  const std::shared_ptr<const Storage>& scales() const { return scales_; }
  void set_scales(std::shared_ptr<const Storage> scales) { scales_ = std::move(scales); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Device device_;
  std::shared_ptr<const void> owner_;  // empty: ours to release
  std::shared_ptr<const Storage> scales_;
};

/// Cheap handle to shared, strided, typed storage on one device. Copies alias the data; clone() does not.
class Tensor {
 public:
  Tensor() = default;  ///< empty: "no bias", "no mask"; test with if (t)
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, Strides strides, int64_t offset = 0);

  explicit operator bool() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int64_t rank() const { return shape_.rank(); }
  int64_t dim(int64_t axis) const { return shape_[shape_.axis(axis, "dim")]; }  ///< negative axes count from the end
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const;
  int64_t offset() const { return offset_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_contiguous() const;

  /// The elements: host memory, contiguous and of type T, or throws ShapeError / DeviceError. Those of a mapped file
  /// are given as const T only.
  template <class T>
  std::span<T> data() const {
    check_host_access(dtype_of<std::remove_const_t<T>>(), !std::is_const_v<T>);
    return {static_cast<T*>(raw()), static_cast<size_t>(numel())};
  }
  /// The only element, from any device and dtype, as a double.
  double item() const;
  /// All elements in row-major order, from any device and dtype.
  template <class T = float>
  std::vector<T> to_vector() const;

  /// The same storage seen with another shape and strides (no autograd; ops/shape.h has the differentiable ones).
  Tensor as_strided(Shape shape, Strides strides, int64_t offset) const;
  /// A dense copy with its own storage, outside the recorded graph.
  Tensor clone() const;
  /// The same data without its history.
  Tensor detach() const;

  // What autograd knows of this handle; empty for a constant.
  const std::shared_ptr<Variable>& variable() const { return variable_; }
  void set_variable(std::shared_ptr<Variable> variable) { variable_ = std::move(variable); }

  View view() const;
  void* raw() const;  ///< address of the first element, on the tensor's device

 private:
  void check_host_access(DType wanted, bool for_writing) const;

  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::f32;
  Shape shape_;
  Strides strides_;
  int64_t offset_ = 0;  // in elements
  std::shared_ptr<Variable> variable_;
};

/// A tensor and what it is called in a model or a file.
using NamedTensor = std::pair<std::string, Tensor>;

/// A dense tensor as a matrix: all axes but the last make the rows. Throws ShapeError unless contiguous.
Rows rows(const Tensor& tensor);
/// The same, but an empty tensor gives empty rows.
Rows rows_or_empty(const Tensor& tensor);
/// A view, or an empty one for an empty tensor.
View view_or_empty(const Tensor& tensor);

struct MemoryStats {
  size_t live_bytes = 0;  ///< held by tensors and kernels' scratch
  size_t peak_bytes = 0;  ///< the largest live_bytes since reset_peak_memory
};
MemoryStats memory_stats(Device device = kCpu);
void reset_peak_memory(Device device = kCpu);

}  // namespace attend
