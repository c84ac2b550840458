#pragma once

#include <string>

#include "io/scratch_folder.h"

namespace attend {

/// The lock of a model folder. Throws Error if another process trains the model.
FolderLock lock_for_training(const std::string& folder);

/// A folder that appears under its name complete or not at all. It is written to a scratch folder beside it,
/// NAME.new-PROCESS, which is removed unless keep() is called.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path);

  const std::string& path() const { return scratch_.path(); }  ///< the scratch folder to write to
  /// Renames the scratch folder to its final name. Replaces an existing folder that is not empty only if `overwrite`,
  /// and throws Error otherwise. The returned lock holds under the new name.
  FolderLock keep(bool overwrite);

 private:
  std::string path_;
  ScratchFolder scratch_;
};

/// Removes what killed processes left in a folder and beside it: scratch folders that carry a mark and are not locked.
/// The caller must hold the folder's lock.
void remove_leftovers(const std::string& folder);

}  // namespace attend
