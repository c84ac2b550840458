#pragma once

#include <string>

namespace attend {

/// Says that this process works in a folder; ends with the process, however that ends.
class FolderLock {
 public:
  FolderLock() = default;
  /// Throws Error if another one works there. Where the file system has no locks nothing is locked.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  int file_ = -1;
};

/// A folder that appears whole under its name or not at all: it is made under a temporary name beside it, and gone
/// unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return temporary_; }  ///< where to write until it is kept
  /// Takes its name; only with `overwrite` in place of a folder that has it and is not empty. The lock goes on under the
  /// new name. Throws Error otherwise.
  FolderLock keep(bool overwrite);

 private:
  std::string path_, temporary_;
  FolderLock lock_;
};

/// Removes what processes that were killed left beside and in a folder: temporary folders nobody works in, and
/// temporary files, so the folder has to be locked.
void remove_leftovers(const std::string& folder);

}  // namespace attend
