#include "io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "attend/base/error.h"

namespace attend {
namespace {

/// Creates a file next to `path` that nobody else has; the process number alone may recur after a crash.
int create_beside(const std::string& path, std::string& name) {
  static std::atomic<uint64_t> count{0};
  int file = -1;
  do {
    name = path + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EEXIST);
  return file;
}

/// The new name itself reaches the disk with its folder. Not every file system can sync one, hence no error.
void sync_folder(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const int folder = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // A rename would put a plain file in the place of a device: as root, for everyone.
  std::error_code unknown;
  const auto status = std::filesystem::status(path_, unknown);
  require<Error>(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
                     std::filesystem::is_directory(status),
                 path_, ": cannot create: a device or pipe has this name");
  file_ = create_beside(path_, temporary_);
  if (file_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const { throw Error(path_ + ": cannot " + what + ": " + std::strerror(errno)); }

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 30;  // Linux writes at most 2 GiB at once
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, from, std::min(bytes, kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    from += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail("sync");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  close(file_);
  file_ = -1;
  sync_folder(path_);
}

}  // namespace attend
