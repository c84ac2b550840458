#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/regular_file.h"

namespace attend {

/// A file mapped read-only: a write faults. The bytes stay valid as long as `owner` lives. If another process truncates
/// the file meanwhile, reading beyond its new end raises SIGBUS. To replace a mapped file, rename another file over it:
/// the mapping keeps the old content.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Throws FormatError naming the file if it cannot be opened or is not a regular file.
MappedFile map_file(const std::string& path, Links links = Links::follow);

/// The path of the mapped file that holds this address, or null. Safe to call from a signal handler.
const char* mapped_path_of(const void* address);

/// Releases the memory of the pages that lie entirely within `bytes`, a part of a mapped file. Later accesses read them
/// from the file again.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace attend
