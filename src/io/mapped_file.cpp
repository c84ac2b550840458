#include "io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "attend/base/error.h"

namespace attend {
namespace {

/// An entry of the list of mappings. A signal handler walks the list without a lock. Entries are therefore reused but
/// never freed, and the path of an entry changes only while its size is 0.
struct Mapping {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::string path;
  Mapping* next = nullptr;
};

std::atomic<Mapping*> first_mapping{nullptr};
std::mutex mappings_mutex;

Mapping* add_mapping(const void* address, size_t size, const std::string& path) {
  const std::lock_guard lock(mappings_mutex);
  Mapping* mapping = first_mapping.load();
  while (mapping != nullptr && mapping->size.load() != 0) mapping = mapping->next;
  const bool is_new = mapping == nullptr;
  if (is_new) mapping = new Mapping{};
  mapping->path = path;
  mapping->begin.store(reinterpret_cast<uintptr_t>(address));
  mapping->size.store(size);
  if (is_new) {
    mapping->next = first_mapping.load();
    first_mapping.store(mapping);
  }
  return mapping;
}

void remove_mapping(Mapping* mapping) {
  const std::lock_guard lock(mappings_mutex);
  mapping->size.store(0);
}

}  // namespace

MappedFile map_file(const std::string& path, Links links) {
  const Descriptor file = open_regular(path, links);
  struct stat status {};
  const int looked = fstat(file.get(), &status);
  require<FormatError>(looked == 0, path, ": cannot read: ", std::strerror(errno));
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {{}, std::make_shared<char>()};  // mmap refuses a length of 0
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  require<FormatError>(address != MAP_FAILED, path, ": cannot map: ", std::strerror(errno));
  Mapping* mapping = add_mapping(address, size, path);
  std::shared_ptr<const void> owner(address, [size, mapping](const void* data) {
    remove_mapping(mapping);
    munmap(const_cast<void*>(data), size);
  });
  return {{static_cast<const std::byte*>(address), size}, std::move(owner)};
}

const char* mapped_path_of(const void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  for (const Mapping* mapping = first_mapping.load(); mapping != nullptr; mapping = mapping->next) {
    const size_t size = mapping->size.load();
    if (place - mapping->begin.load() < size) return mapping->path.c_str();  // wraps if `place` is below `begin`
  }
  return nullptr;
}

void drop_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;  // whole pages only
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace attend
