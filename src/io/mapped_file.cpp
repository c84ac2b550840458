#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "attend/base/error.h"

namespace attend {
namespace {

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

}  // namespace

MappedFile map_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe must not block us here
  require<FormatError>(file.value >= 0, path, ": cannot open: ", std::strerror(errno));
  struct stat status {};
  require<FormatError>(fstat(file.value, &status) == 0, path, ": cannot read: ", std::strerror(errno));
  require<FormatError>(S_ISREG(status.st_mode), path, ": expected a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {{}, std::make_shared<char>()};  // nothing can be mapped of an empty file
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  require<FormatError>(address != MAP_FAILED, path, ": cannot map: ", std::strerror(errno));
  std::shared_ptr<const void> owner(address, [size](const void* data) { munmap(const_cast<void*>(data), size); });
  return {{static_cast<const std::byte*>(address), size}, std::move(owner)};
}

void drop_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;  // neighbours keep theirs
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace attend
