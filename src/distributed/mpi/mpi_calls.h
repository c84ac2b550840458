#pragma once

#include <mpi.h>

#include <mutex>
#include <span>

// All calls of MPI go through these functions. Several threads of a process use MPI, one call at a time: a mutex guards
// each call, and no call blocks. So MPI_THREAD_SERIALIZED is enough, which every implementation provides.
namespace attend::distributed::mpi {

std::mutex& mpi_mutex();

/// Throws Error, with MPI's text, unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// Calls MPI while no other thread does.
template <class Function, class... Arguments>
void call(const char* name, Function function, Arguments... arguments) {
  const std::lock_guard lock(mpi_mutex());
  check(function(arguments...), name);
}

/// How a waiting thread polls. MPI moves the bytes of a message only inside its own calls, a small part in each call.
/// `busy` polls without a pause, for messages that all processes have started; `relaxed` sleeps between polls, for
/// processes that may be late.
enum class Polling { busy, relaxed };
/// Returns when all requests are complete. Ends the job if that takes longer than patience().
void wait_all(std::span<MPI_Request> requests, Polling polling);

/// The communicator of heartbeats, and on it the tag of the message that announces the end of the job.
MPI_Comm& watch_communicator();
constexpr int kEndTag = 1;
/// Whether another process has announced the end of the job and its reason. Holds the mutex already.
bool is_end_announced();

/// Prints "attend: `reason`" as one line, unless another process did, then ends all processes of the job.
[[noreturn]] void end_job(const char* reason, int code);

}  // namespace attend::distributed::mpi
