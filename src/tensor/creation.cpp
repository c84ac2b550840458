#include "attend/tensor/creation.h"

#include <atomic>
#include <numeric>

#include "backend/kernels.h"
#include "tensor/device_constants.h"

namespace attend {
namespace {

std::atomic<int> default_gpu{-1};  // −1: the CPU. An atomic Device would not be lock-free with every compiler

size_t byte_size(const Shape& shape, DType dtype) {
  for (int64_t dim : shape) require<ShapeError>(dim >= 0, "empty: negative size in shape ", shape);
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t dim : shape) {
    require<ShapeError>(!__builtin_mul_overflow(bytes, dim, &bytes), "empty: shape ", shape, " is too large");
  }
  return static_cast<size_t>(bytes);
}

/// Copies between devices. From one GPU to another, the bytes take the way over the host.
void move_bytes(void* to, Device target, const void* from, Device source, size_t bytes) {
  if (bytes == 0) return;
  if (source == kCpu) return kernels(target).memory.upload(to, from, bytes);
  if (target == kCpu) return kernels(source).memory.download(to, from, bytes);
  std::vector<std::byte> between(bytes);
  kernels(source).memory.download(between.data(), from, bytes);
  kernels(target).memory.upload(to, between.data(), bytes);
}

std::shared_ptr<Storage> moved(const Storage& storage, Device device) {
  auto result = std::make_shared<Storage>(storage.bytes(), device);
  move_bytes(result->data(), device, storage.data(), storage.device(), storage.bytes());
  return result;
}

}  // namespace

Device default_device() {
  const int gpu = default_gpu.load(std::memory_order_relaxed);
  return gpu < 0 ? kCpu : Device{Device::Kind::cuda, gpu};
}
void set_default_device(Device device) {
  default_gpu.store(device == kCpu ? -1 : device.index, std::memory_order_relaxed);
}

Tensor empty(const Shape& shape, TensorOptions options) {
  auto storage = std::make_shared<Storage>(byte_size(shape, options.dtype), options.device);
  return {std::move(storage), options.dtype, shape, contiguous_strides(shape)};
}

Tensor empty_like(const Tensor& tensor) { return empty(tensor.shape(), {tensor.dtype(), tensor.device()}); }

Tensor full(const Shape& shape, double value, TensorOptions options) {
  Tensor result = empty(shape, options);
  kernels(options.device).elementwise.fill(result.view(), value);
  return result;
}

Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor zeros_like(const Tensor& tensor) { return zeros(tensor.shape(), {tensor.dtype(), tensor.device()}); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }

template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, Device device) {
  require<ShapeError>(static_cast<int64_t>(values.size()) == shape.numel(), "tensor: shape ", shape, " needs ",
                      shape.numel(), " values, got ", values.size());
  Tensor result = empty(shape, {dtype_of<T>(), device});
  kernels(device).memory.upload(result.raw(), values.data(), values.size_bytes());
  return result;
}
template Tensor from_span<float>(std::span<const float>, const Shape&, Device);
template Tensor from_span<double>(std::span<const double>, const Shape&, Device);
template Tensor from_span<int64_t>(std::span<const int64_t>, const Shape&, Device);
template Tensor from_span<uint8_t>(std::span<const uint8_t>, const Shape&, Device);

Tensor arange(int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return tensor(values, {count});
}

Tensor bool_tensor(std::span<const uint8_t> values, const Shape& shape) {
  const Tensor bytes = from_span<uint8_t>(values, shape);
  return {bytes.storage(), DType::boolean, bytes.shape(), bytes.strides()};
}

Tensor uniform(const Shape& shape, double low, double high, RandomStream stream, TensorOptions options) {
  Tensor result = empty(shape, options);
  kernels(options.device).random.uniform(stream, low, high, rows(result));
  return result;
}

Tensor normal(const Shape& shape, double mean, double deviation, RandomStream stream, TensorOptions options) {
  Tensor result = empty(shape, options);
  kernels(options.device).random.normal(stream, mean, deviation, rows(result));
  return result;
}

Tensor to(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor result = empty(tensor.shape(), {dtype, tensor.device()});
  kernels(tensor.device()).elementwise.copy(tensor.view(), result.view());
  return result;
}

Tensor to(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  const Tensor dense = tensor.is_contiguous() ? tensor : tensor.clone();
  Tensor result = empty(tensor.shape(), {tensor.dtype(), device});
  move_bytes(result.raw(), device, dense.raw(), tensor.device(), byte_size(dense.shape(), dense.dtype()));
  if (const auto& scales = tensor.storage()->scales()) {
    require<ShapeError>(result.storage()->bytes() == tensor.storage()->bytes(), "to: expected a whole int8 matrix");
    result.storage()->set_scales(moved(*scales, device));
  }
  return result;
}

Tensor on_device(const Tensor& tensor, Device device) {
  if (!tensor || tensor.device() == device) return tensor;
  std::shared_ptr<Storage> twin = tensor.storage()->twin();
  DeviceConstants* const constants = tensor.device() == kCpu ? DeviceConstants::current() : nullptr;
  if (!twin || twin->device() != device) {
    if (constants != nullptr) twin = constants->find(*tensor.storage(), device);
    if (!twin || twin->device() != device) {
      twin = moved(*tensor.storage(), device);
      if (constants != nullptr) constants->add(*tensor.storage(), twin);
    }
    tensor.storage()->set_twin(twin);
  } else if (constants != nullptr) {
    constants->keep(twin);
  }
  return {std::move(twin), tensor.dtype(), tensor.shape(), tensor.strides(), tensor.offset()};
}

void copy_values(const Tensor& source, const Tensor& target) {
  require<ShapeError>(source && target && source.shape() == target.shape(), "copy_values: the source has shape ",
                      source.shape(), " but the target has ", target.shape());
  require<ShapeError>(!source.storage()->scales() && !target.storage()->scales(),
                      "copy_values: expected tensors without scales, got an int8 matrix");
  require<ShapeError>(!target.storage()->is_read_only(),
                      "copy_values: the target is in a mapped file and read-only; clone() it first");
  target.storage()->set_twin(nullptr);
  kernels(target.device()).elementwise.copy(to(source, target.device()).view(), target.view());
}

}  // namespace attend
