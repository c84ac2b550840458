#pragma once

#include <optional>
#include <string>

#include "io/regular_file.h"

namespace attend {

/// Prefix of the names of folders that are being created (not yet marked) or removed.
inline constexpr const char* kScratchPrefix = ".attend-temporary-5f1c9b7e-";

/// An exclusive lock on a folder, held until this object is destroyed or the process ends. Renaming the folder does not
/// release it.
class FolderLock {
 public:
  FolderLock() = default;  ///< holds no lock
  /// Never waits. is_held() is false if another process holds the lock (then is_busy() is true), if the folder does not
  /// exist, or if the file system does not support locks.
  explicit FolderLock(const std::string& folder);

  bool is_held() const { return bool(folder_); }
  bool is_busy() const { return is_busy_; }

 private:
  Descriptor folder_;
  bool is_busy_ = false;
};

/// A folder for unfinished files. It contains a mark file, which records the process that created the folder and the
/// folder's name, and the process holds its lock. The mark and the lock distinguish a folder that a killed process left
/// from a user's folder, whatever its name. Before the mark is written, and during removal, the name of the folder
/// begins with kScratchPrefix, which nothing else uses.
class ScratchFolder {
 public:
  /// Creates PREFIX-PROCESS, or PREFIX-PROCESS-NUMBER if that name is taken. On failure throws Error with the message
  /// `complaint`, a colon and the reason.
  ScratchFolder(const std::string& prefix, const std::string& complaint);
  ~ScratchFolder();  ///< removes the folder, unless it was released
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Hands the lock to the caller, who has renamed or removed the folder. The destructor then removes nothing.
  FolderLock release();

 private:
  std::string path_;
  FolderLock lock_;
};

/// Marks a folder as removable while its name is `name`. Returns false on failure, with the reason in errno.
bool add_mark(const std::string& folder, const std::string& name);
/// Removes the mark, if there is one.
void remove_mark(const std::string& folder);
/// Removes a folder that no process has locked, if its mark names it or its name begins with kScratchPrefix. Leaves any
/// other folder alone.
void remove_if_abandoned(const std::string& folder);
/// Removes a folder. It is renamed first, so that a process killed meanwhile leaves nothing under the original name.
void remove_folder(const std::string& folder);
/// Renames `from` to `to`, which must not exist. Returns false on failure, with the reason in errno.
bool rename_to_free(const std::string& from, const std::string& to);

}  // namespace attend
