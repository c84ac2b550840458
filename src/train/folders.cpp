#include "train/folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "attend/base/error.h"

namespace attend {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The number of the process, and of the file where one process makes several.
bool is_temporary_file(const std::string& name) {
  const size_t mark = name.rfind(".tmp-");
  if (mark == std::string::npos) return false;
  const std::string_view numbers = std::string_view(name).substr(mark + 5);
  const size_t dash = numbers.find('-');
  return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) && is_number(numbers.substr(dash + 1));
}

bool is_beside(const std::string& name, const std::string& folder) {
  for (const char* mark : {".new-", ".old-"}) {
    if (name.starts_with(folder + mark) && is_number(std::string_view(name).substr(folder.size() + 5))) return true;
  }
  return false;
}

void remove_if_nobody_works_in(const fs::path& folder) {
  std::error_code error;
  try {
    const FolderLock lock(folder.string());
    fs::remove_all(folder, error);
  } catch (const Error&) {  // somebody does
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(std::exchange(file_, -1));
  throw Error(folder + ": another process is training this model");
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

NewFolder::NewFolder(const std::string& path) : path_(path), temporary_(path + ".new-" + std::to_string(getpid())) {
  std::error_code error;
  fs::remove_all(temporary_, error);
  fs::create_directories(temporary_, error);
  require<Error>(!error, path_, ": cannot make this folder: ", error.message());
  lock_ = FolderLock(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code error;
  if (!temporary_.empty()) fs::remove_all(temporary_, error);
}

FolderLock NewFolder::keep(bool overwrite) {
  if (!overwrite) {  // rename replaces an empty folder and nothing else: of two at once, the second is told
    std::error_code error;
    fs::rename(temporary_, path_, error);
    require<Error>(error != std::errc::directory_not_empty && error != std::errc::file_exists, path_,
                   ": another process has made this folder meanwhile");
    require<Error>(!error, path_, ": cannot make this folder: ", error.message());
    temporary_.clear();
    return std::move(lock_);
  }
  const FolderLock replaced = fs::exists(path_) ? FolderLock(path_) : FolderLock();
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
    // There is nothing to replace, or the file system cannot exchange: then for a moment neither has the name.
    const std::string old = path_ + ".old-" + std::to_string(getpid());
    std::error_code error;
    if (fs::exists(path_)) fs::rename(path_, old, error);
    if (!error) fs::rename(temporary_, path_, error);
    require<Error>(!error, path_, ": cannot make this folder: ", error.message());
    temporary_ = old;
  }
  std::error_code error;
  fs::remove_all(std::exchange(temporary_, ""), error);
  return std::move(lock_);
}

void remove_leftovers(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  std::vector<fs::path> files, folders;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (is_temporary_file(entry.path().filename().string())) files.push_back(entry.path());
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (is_beside(entry.path().filename().string(), path.filename().string())) folders.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, error);
  for (const fs::path& left : folders) remove_if_nobody_works_in(left);
}

}  // namespace attend
