#include "io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "attend/base/error.h"
#include "io/scratch_folder.h"

namespace attend {
namespace {

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

/// The path of an open file under /proc, or an empty string if /proc does not show it.
std::string place_of(int file) {
  const std::string place = "/proc/self/fd/" + std::to_string(file);
  return access(place.c_str(), F_OK) == 0 ? place : "";
}

/// Opens a file without a name in the folder of `path`. Returns −1 if the file system does not support this.
int create_nameless(const std::string& path) {
  const int file = open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0 || !place_of(file).empty()) return file;
  close(file);
  return -1;
}

/// Syncs the folder, so that the new name reaches the disk as well. Some file systems cannot sync a folder: errors are
/// ignored.
void sync_folder(const std::string& path) {
  const int folder = open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // A rename would replace a device such as /dev/null by a plain file, for every process if run as root.
  std::error_code unknown;
  const auto status = std::filesystem::status(path_, unknown);
  require<Error>(!std::filesystem::is_directory(status), path_, ": cannot create: a folder has this name");
  require<Error>(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status), path_,
                 ": cannot create: a device or pipe has this name");
  file_ = create_nameless(path_);
  if (file_ >= 0) return;
  make_scratch();
  file_ = open(scratch_path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
}

void AtomicFile::make_scratch() {
  scratch_ = std::make_unique<ScratchFolder>(folder_of(path_) + "/.attend", path_ + ": cannot create");
}

std::string AtomicFile::scratch_path() const { return scratch_->path() + "/file"; }

/// Links a nameless file to its path. Fails if the path exists.
bool AtomicFile::take_free_name() const {
  return linkat(AT_FDCWD, place_of(file_).c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
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
  if (scratch_ || !take_free_name()) {
    if (!scratch_) {  // linkat() cannot replace a file, rename() can
      make_scratch();
      const int linked = linkat(AT_FDCWD, place_of(file_).c_str(), AT_FDCWD, scratch_path().c_str(), AT_SYMLINK_FOLLOW);
      if (linked != 0) fail("name");
    }
    if (std::rename(scratch_path().c_str(), path_.c_str()) != 0) fail("rename");
    scratch_.reset();
  }
  close(file_);
  file_ = -1;
  sync_folder(path_);
}

}  // namespace attend
