#pragma once

#include <memory>
#include <vector>

#include "distributed/group.h"

namespace attend::distributed {

/// Memory that the members of a group share, because they run on one host. Each member has an area; all of them may
/// read and write all areas. It has no name and takes no room on a disk; the kernel frees it with the last process.
class SharedMemory {
 public:
  /// An area of `bytes` bytes, all 0, for this member; members may pass different sizes. Null, for all members, if they
  /// are on several hosts, one of them cannot get or reach the memory, or one has ATTEND_SHARED_MEMORY=off. Collective.
  static std::unique_ptr<SharedMemory> open(Group& group, int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  Bytes area(int rank) const;
  /// Waits for all members, without using a core. What they wrote before is then visible. Throws Error if it waits for
  /// longer than patience().
  void barrier();

 private:
  struct Header;
  struct Entry;
  SharedMemory() = default;
  bool make(int64_t bytes, Entry& entry);
  bool reach(int rank, const Entry& entry);
  Header& header(int rank) const;

  std::vector<Bytes> mapped_;  // of each rank: a header and the area
  int descriptor_ = -1;
};

}  // namespace attend::distributed
