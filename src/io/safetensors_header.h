#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attend/io/safetensors.h"

namespace attend {

inline constexpr size_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  Metadata metadata;
};

/// Parses the JSON header of a file called `file` that holds `data_bytes` after it; throws FormatError unless it is
/// right in every respect: the tensors fill the data without overlap or hole, each with the size of its shape.
SafetensorsHeader parse_header(std::string_view json, size_t data_bytes, const std::string& file);

/// The header's length and JSON, padded with spaces so that the data that follows is aligned to 8 bytes.
std::string format_header(const SafetensorsHeader& header);

/// "F32" and so on: how the format spells a dtype.
const char* safetensors_name(DType dtype);

}  // namespace attend
