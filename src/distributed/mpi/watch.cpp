#include "distributed/mpi/watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "distributed/mpi/mpi_calls.h"
#include "distributed/patience.h"

namespace attend::distributed::mpi {
namespace {

constexpr double kBeat = 1, kLimit = 20, kPause = 1;  // seconds
constexpr int kPoll = 100;                            // milliseconds

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// A descriptor that becomes readable when the process ends; -1 if the kernel has none, or the process is not in this
/// namespace of processes.
int descriptor_of(int64_t process) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
#else
  return -1;
#endif
}

}  // namespace

Watch::Watch(const Group& group) : group_(group), limit_(seconds_in("ATTEND_HEARTBEAT", kLimit)) {
  call("MPI_Comm_dup", MPI_Comm_dup, MPI_COMM_WORLD, &communicator_);
  watch_communicator() = communicator_;
  call("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler, communicator_, MPI_ERRORS_RETURN);
  const auto& members = group.members();
  const std::string& host = members[static_cast<size_t>(group.rank())].host;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Member& member = members[static_cast<size_t>(rank)];
    if (rank == group.rank() || member.host != host) continue;
    if (const int descriptor = descriptor_of(member.process); descriptor >= 0) {
      neighbours_.push_back({rank, descriptor});
    }
  }
  last_heard_ = now();
  thread_ = std::thread([this] { loop(); });
}

void Watch::stop() {
  is_stopped_ = true;
  thread_.join();
  const std::lock_guard lock(mpi_mutex());
  if (received_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&received_);
    MPI_Request_free(&received_);
  }
  if (sent_ != MPI_REQUEST_NULL) MPI_Request_free(&sent_);
  for (const Neighbour& neighbour : neighbours_) close(neighbour.descriptor);
}

void Watch::loop() {
  while (!is_stopped_) {
    const double before = now();
    watch_processes();
    // Time in which this process was stopped itself, as by Ctrl-Z, does not count.
    if (const double passed = now() - before; passed > kPause) last_heard_ += passed;
    try {
      beat();
      check_silence();
    } catch (const std::exception& error) {
      if (!is_stopped_) report((group_.rank() + group_.size() - 1) % group_.size(), error.what());
    }
  }
}

/// Waits for the end of a process on this host, for a tenth of a second. The process with the lowest rank reports it.
void Watch::watch_processes() {
  std::vector<pollfd> waiting;
  for (const Neighbour& neighbour : neighbours_) waiting.push_back({neighbour.descriptor, POLLIN, 0});
  if (poll(waiting.data(), waiting.size(), kPoll) <= 0 || is_stopped_) return;
  int lowest = group_.rank(), ended = -1;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const bool has_ended = waiting[i].revents != 0;
    if (has_ended && ended < 0) ended = neighbours_[i].rank;
    if (!has_ended) lowest = std::min(lowest, neighbours_[i].rank);
  }
  if (ended < 0) return;
  if (lowest != group_.rank()) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    if (is_stopped_) return;
  }
  report(ended, "its process " + std::to_string(group_.members()[static_cast<size_t>(ended)].process) +
                    " has ended before the others");
}

void Watch::beat() {
  const int next = (group_.rank() + 1) % group_.size(), previous = (group_.rank() + group_.size() - 1) % group_.size();
  const std::lock_guard lock(mpi_mutex());
  int is_done = 0;
  if (received_ == MPI_REQUEST_NULL) {
    check(MPI_Irecv(&arrived_, 1, MPI_BYTE, previous, 0, communicator_, &received_), "MPI_Irecv");
  }
  check(MPI_Test(&received_, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done != 0) last_heard_ = now();
  if (sent_ != MPI_REQUEST_NULL) check(MPI_Test(&sent_, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (sent_ == MPI_REQUEST_NULL && now() - last_sent_ >= kBeat) {
    check(MPI_Isend(&message_, 1, MPI_BYTE, next, 0, communicator_, &sent_), "MPI_Isend");
    last_sent_ = now();
  }
}

void Watch::check_silence() {
  if (now() - last_heard_ <= limit_) return;
  char reason[64];
  std::snprintf(reason, sizeof reason, "no sign of life for %.3g s", limit_);
  report((group_.rank() + group_.size() - 1) % group_.size(), reason);
}

/// A process that ended the job itself has said why; its message may still be under way.
void Watch::report(int rank, const std::string& reason) {
  for (const double start = now(); now() - start < kBeat;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kPoll));
    const std::lock_guard lock(mpi_mutex());
    if (is_end_announced()) break;
  }
  end_job((name_of(group_, rank) + " is lost: " + reason).c_str(), 1);
}

}  // namespace attend::distributed::mpi
