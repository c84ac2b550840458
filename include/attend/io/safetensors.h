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

/// What a safetensors header says of one tensor. The bytes are counted from the start of the data, after the header.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t begin = 0, end = 0;
};

using Metadata = std::map<std::string, std::string>;

/// A safetensors file: a JSON header that names tensors, then their bytes. Nothing in it is trusted: the whole header
/// is checked on opening, and anything wrong is a FormatError that names the file and the tensor.
class SafetensorsFile {
 public:
  /// Maps the file. Shortening it while it is open here breaks the mapping, as with every mapped file; replacing it by
  /// a rename, as write_safetensors does, is safe.
  static SafetensorsFile open(const std::string& path);
  /// The same format in memory; `name` stands for the file in errors. Tensors alias `bytes` if `owner` keeps them
  /// alive; without an owner they are copies, and `bytes` must outlive this object.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string name,
                               std::shared_ptr<const void> owner = nullptr);

  /// All tensors, in the order of their data.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }
  /// Throws FormatError if there is no such tensor.
  const TensorInfo& info(std::string_view name) const;

  /// The tensor: no copy where its bytes are aligned for its type, in which case it keeps the file mapped, outlives
  /// this object, and is read-only (clone() it to change it).
  Tensor tensor(std::string_view name) const;

 private:
  std::string name_;
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::unordered_map<std::string, size_t> index_;
};

/// Writes beside `path`, syncs, then renames: the file is whole or as it was before. The same tensors give the same
/// bytes in whatever order they come: wide types first so that all are aligned, then by name. Throws ShapeError for an
/// empty tensor or a name that is used twice, reserved or not UTF-8; Error if the system refuses.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata = {});

}  // namespace attend
