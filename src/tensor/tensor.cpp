#include "attend/tensor/tensor.h"

#include "attend/tensor/creation.h"
#include "backend/kernels.h"

namespace attend {

Storage::Storage(size_t bytes, Device device)
    : data_(kernels(device).memory.allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::Storage(const void* data, size_t bytes, Device device, std::shared_ptr<const void> owner)
    : data_(const_cast<void*>(data)), bytes_(bytes), device_(device), owner_(std::move(owner)) {}

Storage::~Storage() {
  if (!owner_) kernels(device_).memory.release(data_, bytes_);
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, Strides strides, int64_t offset)
    : storage_(std::move(storage)), dtype_(dtype), shape_(shape), strides_(strides), offset_(offset) {}

// Here and not in the header, because they would be inlined wherever a struct holds tensors.
Tensor::Tensor(const Tensor& other) = default;
Tensor::Tensor(Tensor&& other) noexcept = default;
Tensor& Tensor::operator=(const Tensor& other) = default;
Tensor& Tensor::operator=(Tensor&& other) noexcept = default;
Tensor::~Tensor() = default;

Device Tensor::device() const { return storage_ ? storage_->device() : kCpu; }

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int64_t i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return numel() == 0;
    step *= shape_[i];
  }
  return true;
}

void* Tensor::raw() const {
  require<ShapeError>(storage_ != nullptr, "tensor: an empty tensor has no data");
  return static_cast<std::byte*>(storage_->data()) + static_cast<size_t>(offset_) * size_of(dtype_);
}

void Tensor::check_host_access(DType wanted, bool for_writing) const {
  require<ShapeError>(storage_ != nullptr, "tensor: an empty tensor has no data");
  require<DeviceError>(device() == kCpu, "tensor: data() reads host memory, but this tensor is on ", device());
  require<ShapeError>(dtype_ == wanted || (wanted == DType::u8 && dtype_ == DType::boolean), "tensor: data() of ",
                      wanted, " was requested, but the elements are ", dtype_);
  require<ShapeError>(!for_writing || !storage_->is_read_only(), "tensor: a tensor in a mapped file is read-only; ",
                      "use data<const T>() or clone() it");
  if (for_writing) storage_->set_twin(nullptr);
  require<ShapeError>(is_contiguous(), "tensor: data() needs a contiguous tensor; shape ", shape_, " has strides ",
                      strides_);
}

View Tensor::view() const { return {raw(), dtype_, shape_, strides_}; }

Tensor Tensor::as_strided(Shape shape, Strides strides, int64_t offset) const {
  return {storage_, dtype_, shape, strides, offset};
}

Tensor Tensor::clone() const {
  Tensor copy = empty_like(*this);
  kernels(device()).elementwise.copy(view(), copy.view());
  if (storage_->scales()) {
    require<ShapeError>(copy.storage()->bytes() == storage_->bytes(), "clone: expected a whole int8 matrix");
    copy.storage()->set_scales(storage_->scales());
  }
  return copy;
}

Tensor Tensor::detach() const { return {storage_, dtype_, shape_, strides_, offset_}; }

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor dense = to(is_contiguous() ? detach() : clone(), dtype_of<T>());
  std::vector<T> values(static_cast<size_t>(numel()));
  kernels(device()).memory.download(values.data(), dense.raw(), values.size() * sizeof(T));
  return values;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<int64_t> Tensor::to_vector<int64_t>() const;
template std::vector<uint8_t> Tensor::to_vector<uint8_t>() const;

double Tensor::item() const {
  require<ShapeError>(storage_ && numel() == 1, "item: expected one element, got shape ", shape_);
  return to_vector<double>()[0];
}

Rows rows(const Tensor& tensor) {
  require<ShapeError>(tensor.is_contiguous(), "rows: expected a contiguous tensor, got strides ", tensor.strides());
  const int64_t cols = tensor.rank() == 0 ? 1 : tensor.dim(-1);
  int64_t count = 1;
  for (int64_t i = 0; i + 1 < tensor.rank(); ++i) count *= tensor.dim(i);
  return {tensor.raw(), tensor.dtype(), count, cols, cols};
}

Rows rows_or_empty(const Tensor& tensor) { return tensor ? rows(tensor) : Rows{}; }
View view_or_empty(const Tensor& tensor) { return tensor ? tensor.view() : View{}; }

MemoryStats memory_stats(Device device) {
  const MemoryKernels& memory = kernels(device).memory;
  return {memory.live_bytes(), memory.peak_bytes()};
}
void reset_peak_memory(Device device) { kernels(device).memory.reset_peak(); }

}  // namespace attend
