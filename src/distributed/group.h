#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

// Processes that work together: a launcher (mpirun, srun) started them, and messages connect them. This interface moves
// bytes and knows nothing of tensors. It has one implementation for a single process and one in the plug-in
// libattend-mpi.so, which is opened only when a launcher started the program.
namespace attend::distributed {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// A transfer that runs in the background. Call wait() before its buffers are read, written or freed.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns when the transfer is complete. Throws Error if it failed.
  virtual void wait() = 0;
};

/// A process of a group.
struct Member {
  std::string host;
  int64_t process = 0;  ///< its number on the host
  int local_rank = 0;   ///< its place among the members on its host
  int local_size = 1;   ///< number of members on its host
};

/// An ordered set of processes. Collective functions are called by all members, in the same order. One thread at a time
/// may use a group; other threads use channel()s.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<Member>& members() const = 0;

  /// Concatenates the bytes of all ranks in `all`. counts[r] is the number of bytes of rank r.
  virtual std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) = 0;
  /// Sends sent[r] consecutive bytes of `mine` to each rank r, and puts the received[r] bytes that rank r sends here
  /// into `into`, in the order of ranks.
  virtual std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                                     std::span<const int64_t> received) = 0;
  /// Sends `mine` to the next rank and receives `into` from the previous one. The last rank's next is rank 0. Both may
  /// have different sizes; `into` has the size that the previous rank sends.
  virtual std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) = 0;
  /// Replaces `values` by their sums over all ranks, added in an order that the implementation chooses. All ranks get
  /// the same bits.
  virtual std::unique_ptr<Transfer> start_sum(std::span<float> values) = 0;
  virtual void barrier() = 0;

  /// A group of the same members with messages of its own, for another thread. Collective.
  virtual std::unique_ptr<Group> channel() = 0;
  /// The group of the members that pass the same `color`, in the order of their ranks. Collective.
  virtual std::unique_ptr<Group> split(int color) = 0;
  /// Prints "attend: `reason`" and ends all processes of the job at once with this exit code. If several processes call
  /// it, the first reason is printed.
  [[noreturn]] virtual void abort(int code, const std::string& reason) = 0;
};

/// All processes of the job: a single process until join() has connected others.
Group& world();

/// The number of processes that a launcher started together, from its environment variables (Open MPI, MPICH, Slurm);
/// 1 without a launcher.
int launched_size();
/// The rank that the launcher gave this process; 0 without a launcher.
int launched_rank();

/// Connects the processes that a launcher started: opens the plug-in and makes world() their group. Does nothing
/// without a launcher. Throws Error if the plug-in is missing or belongs to another version.
void join();
/// Waits for all processes, then disconnects them. Does nothing in a single process.
void leave();

/// Makes a group the world() of this thread for as long as the scope lives: for tests, in which threads stand for
/// processes.
class WorldScope {
 public:
  explicit WorldScope(Group& group);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  Group* before_;
};

/// "rank 3 (host-b)".
inline std::string name_of(const Group& group, int rank) {
  return "rank " + std::to_string(rank) + " (" + group.members()[static_cast<size_t>(rank)].host + ")";
}

/// The bytes of a trivially copyable value, vector or span.
template <class T>
ConstBytes bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(values));
}
template <class T>
Bytes writable_bytes_of(std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(values));
}

/// The values of all ranks, in order. Every rank passes the same number of values.
template <class T>
std::vector<T> all_gather(Group& group, const std::vector<T>& mine) {
  std::vector<T> all(mine.size() * static_cast<size_t>(group.size()));
  const std::vector<int64_t> counts(static_cast<size_t>(group.size()), static_cast<int64_t>(mine.size() * sizeof(T)));
  group.start_all_gather(bytes_of(mine), writable_bytes_of(all), counts)->wait();
  return all;
}

/// The texts of all ranks, which may have different lengths.
std::vector<std::string> all_gather(Group& group, const std::string& mine);
/// The lists of all ranks, one after the other.
std::vector<std::string> all_gather(Group& group, const std::vector<std::string>& mine);
/// A list as one text, and back: for messages.
std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked(const std::string& text);
/// The text of rank `root`, on every rank.
std::string broadcast(Group& group, const std::string& text, int root = 0);

}  // namespace attend::distributed
