#pragma once

#include <atomic>
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

struct Variable;  // a tensor's vertex in the recorded graph: see attend/autograd/autograd.h

/// Owns, or keeps alive, a block of device memory.
class Storage {
 public:
  /// Allocates uninitialised memory.
  Storage(size_t bytes, Device device);
  /// Refers to memory that `owner` owns and keeps alive, such as a mapped file. The memory is read-only.
  Storage(const void* data, size_t bytes, Device device, std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_read_only() const { return owner_ != nullptr; }  ///< the memory belongs to another owner

  /// The scales of a matrix quantised to i8: see attend/ops/weight_format.h. Null for all other storage.
  const std::shared_ptr<const Storage>& scales() const { return scales_; }
  void set_scales(std::shared_ptr<const Storage> scales) { scales_ = std::move(scales); }

  /// The same matrix in the layout that products read fastest: see pack_matrix() in attend/ops/weight_format.h. Null
  /// for most storage.
  const std::shared_ptr<const Storage>& panels() const { return panels_; }
  void set_panels(std::shared_ptr<const Storage> panels, bool for_bf16) {
    panels_ = std::move(panels);
    panels_for_bf16_ = for_bf16;
  }
  bool panels_for_bf16() const { return panels_for_bf16_; }  ///< for products whose precision is bf16

  /// The copy of this storage on another device that on_device() keeps; null if there is none.
  std::shared_ptr<Storage> twin() const { return twin_.load(); }
  void set_twin(std::shared_ptr<Storage> twin) { twin_.store(std::move(twin)); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Device device_;
  std::shared_ptr<const void> owner_;  // empty: the destructor releases data_
  std::shared_ptr<const Storage> scales_, panels_;
  bool panels_for_bf16_ = false;
  std::atomic<std::shared_ptr<Storage>> twin_;
};

/// A cheap handle to shared, strided, typed storage on one device. Copies of a Tensor share its data; clone() copies
/// the data.
class Tensor {
 public:
  Tensor() = default;  ///< an empty tensor, for "no bias" or "no mask"; test with `if (t)`
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, Strides strides, int64_t offset = 0);
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(const Tensor& other);
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  explicit operator bool() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int64_t rank() const { return shape_.rank(); }
  /// Size along an axis. Negative axes count from the end. Throws ShapeError if the axis is out of range.
  int64_t dim(int64_t axis) const { return shape_[shape_.axis(axis, "dim")]; }
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const;
  int64_t offset() const { return offset_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_contiguous() const;

  /// The elements in host memory. Throws DeviceError if the tensor is not on the CPU, and ShapeError if the tensor is
  /// empty, is not contiguous or holds elements of another type than T. A read-only tensor needs a const T.
  template <class T>
  std::span<T> data() const {
    check_host_access(dtype_of<std::remove_const_t<T>>(), !std::is_const_v<T>);
    return {static_cast<T*>(raw()), static_cast<size_t>(numel())};
  }
  /// The value of a tensor with one element as a double, from any device and dtype. Throws ShapeError for other sizes.
  double item() const;
  /// All elements in row-major order, converted to T, from any device and dtype.
  template <class T = float>
  std::vector<T> to_vector() const;

  /// The same storage with another shape, strides and offset. Not recorded; ops/shape.h has differentiable views.
  Tensor as_strided(Shape shape, Strides strides, int64_t offset) const;
  /// A dense copy with its own storage. Not recorded.
  Tensor clone() const;
  /// The same storage outside the recorded graph.
  Tensor detach() const;

  // The handle's vertex in the recorded graph; null for a constant.
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

/// A tensor and its name in a model or a file.
using NamedTensor = std::pair<std::string, Tensor>;

/// A dense tensor as a matrix: all axes but the last become the rows. Throws ShapeError unless the tensor is
/// contiguous.
Rows rows(const Tensor& tensor);
/// rows(tensor), or empty Rows for an empty tensor.
Rows rows_or_empty(const Tensor& tensor);
/// tensor.view(), or an empty View for an empty tensor.
View view_or_empty(const Tensor& tensor);

struct MemoryStats {
  size_t live_bytes = 0;  ///< bytes currently allocated for tensors and kernels' scratch memory
  size_t peak_bytes = 0;  ///< largest live_bytes since reset_peak_memory
};
MemoryStats memory_stats(Device device = kCpu);
void reset_peak_memory(Device device = kCpu);

}  // namespace attend
