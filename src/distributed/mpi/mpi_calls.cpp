#include "distributed/mpi/mpi_calls.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "attend/base/error.h"

namespace attend::distributed::mpi {
namespace {

using Clock = std::chrono::steady_clock;
// How long a waiting thread polls without a pause, before it sleeps between polls.
constexpr auto kBusy = std::chrono::milliseconds(50), kRelaxed = std::chrono::milliseconds(0);
constexpr auto kNap = std::chrono::microseconds(50);
constexpr double kPatience = 3600;
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
  static const double patience = seconds_in("ATTEND_PATIENCE", kPatience);
  const auto start = Clock::now(), naps = start + (polling == Polling::busy ? kBusy : kRelaxed);
  while (true) {
    int is_done = 0;
    call("MPI_Testall", MPI_Testall, static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
    if (is_done != 0) return;
    const auto now = Clock::now();
    if (now < naps) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
    if (now - start > std::chrono::duration<double>(patience)) {
      end_job("a process has waited for the others for too long; ATTEND_PATIENCE sets the limit in seconds", 1);
    }
  }
}

double seconds_in(const char* variable, double fallback) {
  const char* text = std::getenv(variable);
  const double value = text != nullptr ? std::strtod(text, nullptr) : 0;
  return value > 0 ? value : fallback;
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
