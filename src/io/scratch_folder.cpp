#include "io/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "attend/base/error.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMarkFile = "/.attend-temporary";
constexpr const char* kMagic = "attend temporary folder 5f1c9b7e\n";
constexpr int64_t kMostMark = 4096;

std::string name_of(const std::string& folder) { return fs::path(folder).filename().string(); }

std::string mark_for(const std::string& name) { return kMagic + name + "\n"; }

/// What the mark of a folder says; empty if there is none, or another file has its name.
std::string mark_of(const std::string& folder) {
  try {
    const std::string text = read_regular(folder + kMarkFile, kMostMark, Links::refuse);
    return text.starts_with(kMagic) ? text : "";
  } catch (const FormatError&) {
    return "";
  }
}

bool is_marked(const std::string& folder) { return mark_of(folder) == mark_for(name_of(folder)); }

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
  // Another folder may take this one's name between opening and locking: then the new one is to be locked.
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
  int made = mkdir(name.c_str(), 0777);
  for (int number = 1; made != 0 && errno == EEXIST; ++number) {
    name = first + "-" + std::to_string(number);
    made = mkdir(name.c_str(), 0777);
  }
  require<Error>(made == 0, complaint, ": ", std::strerror(errno));
  lock_ = FolderLock(name);
  if (add_mark(name, name_of(name))) {
    path_ = name;
    return;
  }
  const std::string why = std::strerror(errno);
  std::error_code error;
  fs::remove_all(name, error);
  throw Error(complaint + ": " + why);
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

FolderLock ScratchFolder::release() {
  path_.clear();
  return std::move(lock_);
}

bool add_mark(const std::string& folder, const std::string& name) {
  const std::string path = folder + kMarkFile, text = mark_for(name);
  remove_mark(folder);  // one that a killed process left
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void remove_mark(const std::string& folder) {
  if (!mark_of(folder).empty()) unlink((folder + kMarkFile).c_str());
}

void remove_if_abandoned(const std::string& folder) {
  if (!is_real_folder(folder) || !is_marked(folder)) return;
  const FolderLock lock(folder);
  std::error_code error;
  if (lock.is_held() && is_real_folder(folder) && is_marked(folder)) fs::remove_all(folder, error);
}

}  // namespace attend
