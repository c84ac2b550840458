#include "train/folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "attend/base/error.h"

namespace attend {
namespace {

namespace fs = std::filesystem;

std::string made_above(const std::string& path) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  require<Error>(!error, path, ": cannot make this folder: ", error.message());
  return path;
}

/// A free name for a folder that is about to be replaced.
std::string free_old_name(const std::string& path) {
  const std::string first = path + ".old-" + std::to_string(getpid());
  std::string name = first;
  std::error_code error;
  for (int number = 1; fs::exists(fs::symlink_status(name, error)); ++number) {
    name = first + "-" + std::to_string(number);
  }
  return name;
}

std::string name_of(const std::string& path) { return fs::path(path).filename().string(); }

/// Used if the file system cannot exchange two folders: renames `path`, if it exists, to a free name, then `made` to
/// `path`. In between, no folder is called `path`. Returns the new name of the old folder, which carries a mark with
/// that name.
std::string replace(const std::string& made, const std::string& path) {
  const std::string old = free_old_name(path);
  std::error_code error;
  const bool is_there = fs::exists(path, error);
  const bool is_moved = is_there && add_mark(path, name_of(old)) && rename_to_free(path, old);
  if ((!is_there || is_moved) && rename_to_free(made, path)) return old;
  const std::string why = std::strerror(errno);
  if (is_moved) rename_to_free(old, path);
  remove_mark(path);
  throw Error(path + ": cannot make this folder: " + why);
}

}  // namespace

FolderLock lock_for_training(const std::string& folder) {
  FolderLock lock(folder);
  require<Error>(!lock.is_busy(), folder, ": another process is training this model");
  return lock;
}

NewFolder::NewFolder(const std::string& path)
    : path_(made_above(path)), scratch_(path + ".new", path + ": cannot make this folder") {}

FolderLock NewFolder::keep(bool overwrite) {
  const std::string made = scratch_.path();
  if (!overwrite) {  // rename replaces only an empty folder: of two processes, the second one fails
    std::error_code error;
    fs::rename(made, path_, error);
    require<Error>(error != std::errc::directory_not_empty && error != std::errc::file_exists, path_,
                   ": another process has created this folder in the meantime");
    require<Error>(!error, path_, ": cannot make this folder: ", error.message());
    remove_mark(path_);
    return scratch_.release();
  }
  const FolderLock replaced = lock_for_training(path_);
  // Mark the folder that is replaced with the name it will have: if this process is killed, a later one removes it.
  std::error_code error;
  std::string old = made;
  if (fs::exists(path_, error)) add_mark(path_, name_of(old));
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) old = replace(made, path_);
  remove_mark(path_);
  FolderLock lock = scratch_.release();
  remove_folder(old);
  return lock;
}

void remove_leftovers(const std::string& folder) {
  const fs::path path(folder);
  const std::string name = path.filename().string();
  std::error_code error;
  std::vector<std::string> found;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (auto entry = fs::recursive_directory_iterator(path, skip, error); !error && entry != end(entry);
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(".attend-")) found.push_back(entry->path().string());
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (auto entry = fs::directory_iterator(parent, error); !error && entry != end(entry); entry.increment(error)) {
    const std::string beside = entry->path().filename().string();
    if (beside.starts_with(name + ".new-") || beside.starts_with(name + ".old-") ||
        beside.starts_with(kScratchPrefix)) {
      found.push_back(entry->path().string());
    }
  }
  for (const std::string& left : found) remove_if_abandoned(left);
  remove_mark(folder);  // left by a process that was killed after the rename
}

}  // namespace attend
