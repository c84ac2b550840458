#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace attend {

class ScratchFolder;

/// A file that appears whole or not at all. The content goes to a file without a name or, if the file system does not
/// support that, to a scratch folder beside `path`; commit() gives it its name. A symbolic link at `path` is replaced,
/// not followed. Destroying the object before commit() leaves nothing behind. A killed process leaves at most a scratch
/// folder, which carries a mark (see ScratchFolder). Every failure throws Error, which names the path.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();  ///< syncs to the disk, then renames

 private:
  [[noreturn]] void fail(const char* what) const;
  void make_scratch();
  std::string scratch_path() const;
  bool take_free_name() const;

  std::string path_;
  std::unique_ptr<ScratchFolder> scratch_;  ///< null while the file has no name
  int file_ = -1;
};

}  // namespace attend
