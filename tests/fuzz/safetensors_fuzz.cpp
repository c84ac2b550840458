// Any bytes either parse or throw FormatError. A parsed file can be formatted and parsed again.
#include <cstdlib>
#include <cstring>

#include "attend/io/safetensors.h"
#include "io/safetensors_header.h"

namespace {

using attend::SafetensorsFile;

void expect(bool ok) {
  if (!ok) std::abort();
}

void read_every_tensor(const SafetensorsFile& file) {
  for (const attend::TensorInfo& info : file.tensors()) {
    try {
      const attend::Tensor tensor = file.tensor(info.name);
      expect(tensor.shape() == info.shape && tensor.dtype() == info.dtype && tensor.is_contiguous());
      const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
      unsigned sum = 0;
      for (size_t i = 0; i < info.end - info.begin; ++i) sum += bytes[i];
      volatile unsigned sink = sum;
      (void)sink;
    } catch (const attend::FormatError&) {
      expect(info.dtype == attend::DType::boolean);
    }
  }
}

void format_and_parse_again(const SafetensorsFile& file) {
  std::string again = attend::format_header({file.tensors(), file.metadata()});
  expect(again.size() % 8 == 0);
  again.append(file.tensors().empty() ? 0 : file.tensors().back().end, '\0');
  const auto second = SafetensorsFile::parse(std::as_bytes(std::span(again)), "again");
  expect(second.metadata() == file.metadata() && second.tensors().size() == file.tensors().size());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const attend::TensorInfo &a = file.tensors()[i], &b = second.tensors()[i];
    expect(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin && a.end == b.end);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // An owner lets tensors alias the input, so the sanitizer sees any read outside it.
  const std::shared_ptr<const void> owner(data, [](const void*) {});
  try {
    const auto file = SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz", owner);
    read_every_tensor(file);
    format_and_parse_again(file);
  } catch (const attend::FormatError& error) {
    expect(std::strchr(error.what(), '\n') == nullptr);
  }
  return 0;
}
