#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend {

/// The whole of a regular file. Throws FormatError if it is none, cannot be read or has more than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = int64_t{1} << 30);
/// Writes beside `path`, syncs, then renames: the file is whole or as it was before. Throws Error if the system
/// refuses.
void write_file(const std::string& path, std::string_view content);

}  // namespace attend
