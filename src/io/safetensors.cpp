#include "attend/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "attend/tensor/creation.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/printable.h"
#include "io/safetensors_header.h"

namespace attend {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);

/// Throws unless every byte is 0 or 1: reading another byte as a bool is undefined behaviour.
void check_booleans(std::span<const std::byte> bytes, const std::string& file, const std::string& name) {
  const auto bad = std::ranges::find_if(bytes, [](std::byte value) { return value > std::byte{1}; });
  require<FormatError>(bad == bytes.end(), file, ": tensor ", in_quotes(name), ": booleans must be 0 or 1, element ",
                       bad - bytes.begin(), " is ", bad == bytes.end() ? 0 : std::to_integer<int>(*bad));
}

void check_text(std::string_view text, const char* what) {
  require<ShapeError>(valid_utf8_prefix(text) == text.size(), "write_safetensors: ", what, " ", in_quotes(text),
                      " is not valid UTF-8");
}

/// The tensors as contiguous host tensors, in the order in which they are written.
std::vector<NamedTensor> arranged(std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> result;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    check_text(name, "name");
    require<ShapeError>(name != kMetadataKey, "write_safetensors: the name '", kMetadataKey, "' is reserved");
    require<ShapeError>(names.insert(name).second, "write_safetensors: two tensors are named ", in_quotes(name));
    require<ShapeError>(bool(tensor), "write_safetensors: tensor ", in_quotes(name), " is empty");
    result.emplace_back(name, to(tensor.is_contiguous() ? tensor.detach() : tensor.clone(), kCpu));
  }
  std::ranges::sort(result, [](const NamedTensor& a, const NamedTensor& b) {
    const size_t width_a = size_of(a.second.dtype()), width_b = size_of(b.second.dtype());
    return width_a != width_b ? width_a > width_b : a.first < b.first;
  });
  return result;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  MappedFile file = map_file(path);
  return parse(file.bytes, path, std::move(file.owner));
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name,
                                       std::shared_ptr<const void> owner) {
  require<FormatError>(bytes.size() >= kLengthBytes, name, ": expected at least 8 bytes, got ", bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  bytes = bytes.subspan(kLengthBytes);
  require<FormatError>(length <= kMaxHeaderBytes, name, ": header of ", length, " bytes exceeds the limit of ",
                       kMaxHeaderBytes);
  require<FormatError>(length <= bytes.size(), name, ": header of ", length, " bytes is cut off after ", bytes.size());
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), length);
  SafetensorsFile file;
  file.data_ = bytes.subspan(length);
  SafetensorsHeader header = parse_header(json, file.data_.size(), name);
  file.name_ = std::move(name);
  file.owner_ = std::move(owner);
  file.tensors_ = std::move(header.tensors);
  file.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < file.tensors_.size(); ++i) file.index_.emplace(file.tensors_[i].name, i);
  return file;
}

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  require<FormatError>(found != index_.end(), name_, ": there is no tensor ", in_quotes(name));
  return tensors_[found->second];
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const TensorInfo& entry = info(name);
  const auto bytes = data_.subspan(entry.begin, entry.end - entry.begin);
  if (entry.dtype == DType::boolean) check_booleans(bytes, name_, entry.name);
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % size_of(entry.dtype) == 0;
  if (owner_ && aligned && !bytes.empty()) {
    auto storage = std::make_shared<Storage>(bytes.data(), bytes.size(), kCpu, owner_);
    return {std::move(storage), entry.dtype, entry.shape, contiguous_strides(entry.shape)};
  }
  Tensor copy = empty(entry.shape, {entry.dtype, kCpu});
  if (!bytes.empty()) std::memcpy(copy.raw(), bytes.data(), bytes.size());
  return copy;
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    check_text(key, "metadata key");
    check_text(value, "metadata value");
  }
  const std::vector<NamedTensor> in_order = arranged(tensors);
  SafetensorsHeader header{{}, metadata};
  size_t at = 0;
  for (const auto& [name, tensor] : in_order) {
    const size_t end = at + static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype());
    header.tensors.push_back({name, tensor.dtype(), tensor.shape(), at, end});
    at = end;
  }
  const std::string prefix = format_header(header);
  require<ShapeError>(prefix.size() - kLengthBytes <= kMaxHeaderBytes, "write_safetensors: a header of ",
                      prefix.size() - kLengthBytes, " bytes exceeds the limit of ", kMaxHeaderBytes);
  AtomicFile file(path);
  file.write(prefix.data(), prefix.size());
  for (size_t i = 0; i < in_order.size(); ++i) {
    const Tensor host = to(in_order[i].second, kCpu);
    file.write(host.raw(), header.tensors[i].end - header.tensors[i].begin);
  }
  file.commit();
}

}  // namespace attend
