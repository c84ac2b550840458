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
/// The kernel reports at once when a process on the same host ends. In addition, every rank sends a heartbeat to the
/// next rank once a second, and the last rank to rank 0. If a rank's heartbeats are missing for ATTEND_HEARTBEAT
/// seconds (default: 20), the process hangs, its host is down or the network is cut.
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
