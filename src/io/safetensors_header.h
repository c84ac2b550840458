#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attend/io/safetensors.h"

namespace attend {

inline constexpr size_t kMaxHeaderBytes = 100'000'000;  // the limit that the format sets
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  Metadata metadata;
};

/// Parses the JSON header of the file `file`; `data_bytes` bytes of data follow it. Throws FormatError unless the
/// header is valid and the tensors fill the data without overlaps or gaps, each with the size of its shape.
SafetensorsHeader parse_header(std::string_view json, size_t data_bytes, const std::string& file);

/// The header's length and JSON, padded with spaces so that the data that follows is aligned to 8 bytes.
std::string format_header(const SafetensorsHeader& header);

/// The format's name of a dtype, such as "F32".
const char* safetensors_name(DType dtype);

}  // namespace attend
