#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/regular_file.h"

namespace attend {

/// A file mapped for reading: writing through it faults. The bytes live as long as `owner` does. Where another process
/// cuts the file short meanwhile, reading beyond its new end raises SIGBUS: replace a file by
/// renaming another one over it, which leaves the mapped one as it is.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Throws FormatError naming the file if it cannot be opened or is not a regular file.
MappedFile map_file(const std::string& path, Links links = Links::follow);

/// The path of the mapped file that holds this address; null if there is none. May be called by a signal handler.
const char* mapped_path_of(const void* address);

/// Gives back the memory of what was read of a mapped file within these bytes: it is read again when looked at again.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace attend
