#include "io/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "attend/base/error.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMarkFile = "/.attend-temporary";
constexpr const char* kMagic = "attend temporary folder 5f1c9b7e\n";
constexpr int64_t kMostMark = 4096;
constexpr int kMostTries = 100;

std::string name_of(const std::string& folder) { return fs::path(folder).filename().string(); }

std::string mark_for(const std::string& name) { return kMagic + name + "\n"; }

/// The content of a folder's mark file. Empty if there is no such file or if it is not a mark.
std::string mark_of(const std::string& folder) {
  try {
    const std::string text = read_regular(folder + kMarkFile, kMostMark, Links::refuse);
    return text.starts_with(kMagic) ? text : "";
  } catch (const FormatError&) {
    return "";
  }
}

bool is_marked(const std::string& folder) { return mark_of(folder) == mark_for(name_of(folder)); }

bool is_removable(const std::string& folder) {
  return name_of(folder).starts_with(kScratchPrefix) || is_marked(folder);
}

/// A new name beside `path` that begins with kScratchPrefix.
std::string scratch_name(const std::string& path) {
  static std::atomic<int> count = 0;
  const fs::path parent = fs::path(path).parent_path();
  return (parent / (kScratchPrefix + std::to_string(getpid()) + "-" + std::to_string(count++))).string();
}

bool is_real_folder(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_at(const Descriptor& folder, const std::string& path) {
  struct stat open_one {
  }, named{};
  return fstat(folder.get(), &open_one) == 0 && stat(path.c_str(), &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  // Another folder may take this name between open() and flock(); then lock the new folder instead.
  do {
    folder_ = Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) return;
    if (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      is_busy_ = errno == EWOULDBLOCK;
      folder_ = Descriptor();
      return;
    }
  } while (!is_at(folder_, folder));
}

ScratchFolder::ScratchFolder(const std::string& prefix, const std::string& complaint) {
  const std::string first = prefix + "-" + std::to_string(getpid());
  std::string name = first;
  for (int number = 1;; ++number) {
    const std::string made = scratch_name(prefix);
    const bool is_made = mkdir(made.c_str(), 0777) == 0;
    require<Error>(is_made || errno == EEXIST, complaint, ": ", std::strerror(errno));
    if (!is_made) continue;
    lock_ = FolderLock(made);
    const bool is_marked_now = add_mark(made, name_of(name));
    if (is_marked_now && rename_to_free(made, name)) break;
    const int why = errno;
    std::error_code error;
    fs::remove_all(made, error);
    if (is_marked_now && why == EEXIST) name = first + "-" + std::to_string(number);
    // ENOENT: another process removed the folder before it was locked.
    const bool is_worth_a_try = (is_marked_now && why == EEXIST) || (why == ENOENT && number < kMostTries);
    require<Error>(is_worth_a_try, complaint, ": ", std::strerror(why));
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) remove_folder(path_);
}

FolderLock ScratchFolder::release() {
  path_.clear();
  return std::move(lock_);
}

bool add_mark(const std::string& folder, const std::string& name) {
  const std::string path = folder + kMarkFile, text = mark_for(name);
  remove_mark(folder);  // a killed process may have left one
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void remove_mark(const std::string& folder) {
  if (!mark_of(folder).empty()) unlink((folder + kMarkFile).c_str());
}

void remove_if_abandoned(const std::string& folder) {
  if (!is_real_folder(folder) || !is_removable(folder)) return;
  const FolderLock lock(folder);
  if (lock.is_held() && is_real_folder(folder) && is_removable(folder)) remove_folder(folder);
}

void remove_folder(const std::string& folder) {
  const std::string last = scratch_name(folder);
  std::error_code error;
  fs::remove_all(rename_to_free(folder, last) ? last : folder, error);
}

bool rename_to_free(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;  // these two: the file system has no RENAME_NOREPLACE
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error))) return errno = EEXIST, false;
  return std::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace attend
