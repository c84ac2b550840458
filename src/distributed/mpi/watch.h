#pragma once

#include <mpi.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "distributed/group.h"

namespace attend::distributed::mpi {

/// Watches the other processes from a thread of its own, and ends the job with one line when one is lost.
///
/// Processes on the same host are watched by the kernel: the end of one is noticed at once. The processes of all hosts
/// also form a ring, in which each sends a heartbeat to the next every second. A process whose heartbeats have not
/// arrived for ATTEND_HEARTBEAT seconds (default: 20) hangs, or its host or its network is gone.
class Watch {
 public:
  explicit Watch(const Group& group);
  /// Stops watching: from here on, others may end.
  void stop();

 private:
  void loop();
  void watch_processes();
  void beat();
  void check_silence();
  [[noreturn]] void report(int rank, const std::string& reason);

  const Group& group_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  struct Neighbour {
    int rank = 0, descriptor = -1;
  };
  std::vector<Neighbour> neighbours_;  // the other processes on this host
  MPI_Request sent_ = MPI_REQUEST_NULL, received_ = MPI_REQUEST_NULL;
  char message_ = 0, arrived_ = 0;
  double limit_ = 0, last_sent_ = 0, last_heard_ = 0;
  std::atomic<bool> is_stopped_{false};
  std::thread thread_;
};

}  // namespace attend::distributed::mpi
