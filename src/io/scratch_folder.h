#pragma once

#include <optional>
#include <string>

#include "io/regular_file.h"

namespace attend {

/// How the names of folders begin that are about to be marked or removed.
inline constexpr const char* kScratchPrefix = ".attend-temporary-5f1c9b7e-";

/// The lock of a folder, held until this object or its process ends. It follows the folder when that is renamed.
class FolderLock {
 public:
  FolderLock() = default;  ///< of no folder
  /// Never waits. is_held() is false where another process holds the lock (then is_busy() is true), where there is no
  /// such folder, and where the file system has no locks.
  explicit FolderLock(const std::string& folder);

  bool is_held() const { return bool(folder_); }
  bool is_busy() const { return is_busy_; }

 private:
  Descriptor folder_;
  bool is_busy_ = false;
};

/// A folder for what is not finished yet. It holds a file, the mark, that says who made it and under which name, and is
/// locked by its process: what a killed process left can be told from a folder of the user's, whatever its name. Until
/// the mark is in it, and once it is to be removed, it has a name with kScratchPrefix, which nobody else gives.
class ScratchFolder {
 public:
  /// Makes PREFIX-PROCESS, or PREFIX-PROCESS-NUMBER where that name is taken. Throws Error: `complaint`, and why.
  ScratchFolder(const std::string& prefix, const std::string& complaint);
  ~ScratchFolder();  ///< removes the folder, unless it was released
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Has got another name, or was removed: its lock goes to the caller.
  FolderLock release();

 private:
  std::string path_;
  FolderLock lock_;
};

/// Marks a folder as one to be removed once it has the name `name`. False if that fails, with the reason in errno.
bool add_mark(const std::string& folder, const std::string& name);
/// Takes the mark away, if there is one.
void remove_mark(const std::string& folder);
/// Removes a folder that carries the mark for its own name, or kScratchPrefix in it, and that no process holds; leaves
/// any other alone.
void remove_if_abandoned(const std::string& folder);
/// Removes a folder of which nothing is left under its name, even if the process is killed meanwhile.
void remove_folder(const std::string& folder);
/// Gives `from` the name `to`, which nothing may have. False with the reason in errno.
bool rename_to_free(const std::string& from, const std::string& to);

}  // namespace attend
