#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/tensor/tensor.h"

namespace attend {

/// The entry of a tensor in a safetensors header. `begin` and `end` are byte offsets from the end of the header.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t begin = 0, end = 0;
};

using Metadata = std::map<std::string, std::string>;

/// A safetensors file: a JSON header that lists tensors, followed by their bytes. The file is untrusted input: the
/// whole header is checked on opening, and errors are FormatErrors that name the file and the tensor.
class SafetensorsFile {
 public:
  /// Maps the file. Do not truncate the file while it is open, because that breaks the mapping. Replacing it by a
  /// rename, as write_safetensors does, is safe.
  static SafetensorsFile open(const std::string& path);
  /// Reads the same format from memory. `name` is the file name in error messages. If `owner` keeps `bytes` alive,
  /// tensors share `bytes`. Without an owner, tensors are copies, and `bytes` must outlive this object.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string name,
                               std::shared_ptr<const void> owner = nullptr);

  /// All tensors, in the order of their data.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }
  /// Throws FormatError if there is no such tensor.
  const TensorInfo& info(std::string_view name) const;

  /// The tensor with this name. It is not copied if its bytes are aligned for its type; it is then read-only (clone()
  /// it to change it), keeps the file mapped and may outlive this object. Throws FormatError if there is no such
  /// tensor.
  Tensor tensor(std::string_view name) const;

 private:
  std::string name_;
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::unordered_map<std::string, size_t> index_;
};

/// Replaces a file atomically: writes a temporary file next to `path`, syncs it and renames it. Tensors are sorted by
/// the size of their type, largest first, so that all are aligned, then by name: the bytes do not depend on the order
/// of `tensors`. Throws ShapeError for an empty tensor, or a name that is duplicate, reserved or not UTF-8. Throws
/// Error if the file cannot be written.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata = {});

}  // namespace attend
