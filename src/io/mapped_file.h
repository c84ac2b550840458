#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace attend {

/// A file mapped for reading: writing through it faults. The bytes live as long as `owner` does.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Throws FormatError naming the file if it cannot be opened or is not a regular file.
MappedFile map_file(const std::string& path);

/// Gives back the memory of what was read of a mapped file within these bytes: it is read again when looked at again.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace attend
