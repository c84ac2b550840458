#pragma once

#include <memory>
#include <string>

#include "distributed/group.h"
#include "io/scratch_folder.h"

namespace attend {

/// A folder of the first process, as seen from any process: the folder itself where its file system is shared, else a
/// copy, one per host, in the folder for temporary files. The copy is removed with this object. Collective.
class LocalCopy {
 public:
  LocalCopy(distributed::Group& group, const std::string& folder);
  const std::string& path() const { return path_; }
  bool is_copied() const { return is_copied_; }  ///< whether any process has a copy

 private:
  bool is_seen(distributed::Group& group, const std::string& folder) const;
  void copy(distributed::Group& group, const std::string& folder);

  std::string path_;
  bool is_copied_ = false;
  std::unique_ptr<ScratchFolder> scratch_;
};

}  // namespace attend
