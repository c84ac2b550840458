#include "distributed/mpi/mpi_calls.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "attend/base/error.h"
#include "distributed/patience.h"

namespace attend::distributed::mpi {
namespace {

using Clock = std::chrono::steady_clock;
// How long a waiting thread polls without a pause, before it sleeps between polls. It sleeps for an eighth of the time
// that it has waited, within limits: a core has little work with a long wait, and a short one ends soon.
constexpr auto kBusy = std::chrono::milliseconds(50), kRelaxed = std::chrono::milliseconds(0);
constexpr Clock::duration kNap = std::chrono::microseconds(50), kLongNap = std::chrono::milliseconds(1);
constexpr auto kAnnouncement = std::chrono::milliseconds(200);

}  // namespace

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

void check(int code, const char* name) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_error<Error>(name, ": ", text);
}

void wait_all(std::span<MPI_Request> requests, Polling polling) {
  const auto start = Clock::now(), naps = start + (polling == Polling::busy ? kBusy : kRelaxed);
  while (true) {
    int is_done = 0;
    call("MPI_Testall", MPI_Testall, static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
    if (is_done != 0) return;
    const auto now = Clock::now();
    if (now < naps) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::clamp((now - start) / 8, kNap, kLongNap));
    }
    if (now - start > std::chrono::duration<double>(patience())) end_job(kImpatience, 1);
  }
}

MPI_Comm& watch_communicator() {
  static MPI_Comm communicator = MPI_COMM_NULL;
  return communicator;
}

bool is_end_announced() {
  int is_there = 0;
  if (watch_communicator() == MPI_COMM_NULL) return false;
  MPI_Iprobe(MPI_ANY_SOURCE, kEndTag, watch_communicator(), &is_there, MPI_STATUS_IGNORE);
  return is_there != 0;
}

namespace {

/// Tells all other processes that this one ends the job, so that they do not report its end. Waits a moment until the
/// messages are on their way.
void announce_end() {
  int rank = 0, size = 1;
  if (watch_communicator() == MPI_COMM_NULL) return;
  MPI_Comm_rank(watch_communicator(), &rank);
  MPI_Comm_size(watch_communicator(), &size);
  static char nothing = 0;
  std::vector<MPI_Request> requests(static_cast<size_t>(size), MPI_REQUEST_NULL);
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Isend(&nothing, 1, MPI_BYTE, other, kEndTag, watch_communicator(), &requests[static_cast<size_t>(other)]);
  }
  int is_done = 0;
  for (const auto start = Clock::now(); is_done == 0 && Clock::now() - start < kAnnouncement;) {
    if (MPI_Testall(size, requests.data(), &is_done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

void end_job(const char* reason, int code) {
  const std::lock_guard lock(mpi_mutex());
  if (!is_end_announced()) {
    const std::string line = std::string("attend: ") + reason + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    announce_end();
  }
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace attend::distributed::mpi
