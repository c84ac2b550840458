#pragma once

#include <cstddef>
#include <string>

namespace attend {

/// A file that appears whole or not at all: it is written without a name (or, where the file system cannot do that, under
/// a temporary one in the same folder) and takes its own in commit(). Destroyed before that, or the process killed, it
/// leaves no trace. Every failure throws Error naming the path.
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

  std::string path_, temporary_;  ///< no temporary name: it has none
  int file_ = -1;
};

}  // namespace attend
