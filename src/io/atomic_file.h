#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace attend {

class ScratchFolder;

/// A file that appears whole or not at all: it is written without a name (or, where the file system cannot do that, in
/// a scratch folder beside its place) and takes its own in commit(). A link that has the name is replaced, not
/// followed. Destroyed before that it leaves no trace, and a killed process at most a scratch folder, which carries its
/// mark. Every failure throws Error naming the path.
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
