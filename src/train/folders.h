#pragma once

#include <string>

#include "io/scratch_folder.h"

namespace attend {

/// The lock of a model folder. Throws Error if another process trains the model.
FolderLock lock_for_training(const std::string& folder);

/// A folder that appears whole under its name or not at all: it is a scratch folder beside its place, NAME.new-PROCESS,
/// which is removed unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path);

  const std::string& path() const { return scratch_.path(); }  ///< where to write until it is kept
  /// Takes its name; only with `overwrite` in place of a folder that has it and is not empty. The lock goes on under
  /// the new name. Throws Error otherwise.
  FolderLock keep(bool overwrite);

 private:
  std::string path_;
  ScratchFolder scratch_;
};

/// Removes what killed processes left beside and in a folder: scratch folders that carry their mark and that nobody
/// holds. Call it with the lock of the folder.
void remove_leftovers(const std::string& folder);

}  // namespace attend
