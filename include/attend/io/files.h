#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend {

/// The contents of a regular file. Throws FormatError if the path is not a regular file, cannot be read, or has more
/// than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = int64_t{1} << 30);
/// Replaces a file atomically: writes a temporary file next to `path`, syncs it and renames it. Throws Error if the
/// file cannot be written.
void write_file(const std::string& path, std::string_view content);

}  // namespace attend
