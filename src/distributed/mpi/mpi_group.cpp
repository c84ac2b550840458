#include "distributed/mpi/mpi_group.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "attend/base/error.h"
#include "distributed/mpi/mpi_calls.h"

namespace attend::distributed::mpi {
namespace {

constexpr int kRingTag = 1;

/// MPI counts bytes with an int.
int count_of(int64_t bytes) {
  require<ShapeError>(bytes >= 0 && bytes <= std::numeric_limits<int>::max(),
                      "distributed: a message has at most 2 GiB, got ", bytes, " bytes");
  return static_cast<int>(bytes);
}

/// Counts and offsets of consecutive parts. MPI reads them until the transfer is complete.
struct Parts {
  std::vector<int> counts, offsets;

  explicit Parts(std::span<const int64_t> bytes) {
    int64_t at = 0;
    for (const int64_t count : bytes) {
      counts.push_back(count_of(count));
      offsets.push_back(count_of(at));
      at += count;
    }
    total = at;
  }
  int64_t total = 0;
};

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer() = default;
  MpiTransfer(Parts outgoing, Parts incoming) : sent(std::move(outgoing)), received(std::move(incoming)) {}
  void wait() override { wait_all(requests, Polling::busy); }

  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  Parts sent{{}}, received{{}};
};

}  // namespace

MpiGroup::MpiGroup(MPI_Comm communicator) : communicator_(communicator) {
  call("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler, communicator_, MPI_ERRORS_RETURN);
  call("MPI_Comm_rank", MPI_Comm_rank, communicator_, &rank_);
  call("MPI_Comm_size", MPI_Comm_size, communicator_, &size_);
  find_members();
}

MpiGroup::~MpiGroup() {
  const std::lock_guard lock(mpi_mutex());
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over == 0) MPI_Comm_free(&communicator_);
}

void MpiGroup::find_members() {
  struct Entry {
    char host[248];
    int64_t process;
  };
  Entry mine{};
  gethostname(mine.host, sizeof mine.host - 1);
  mine.process = getpid();
  const std::vector<Entry> all = all_gather(*this, std::vector<Entry>{mine});
  for (const Entry& entry : all) {
    Member member{.host = entry.host, .process = entry.process, .local_rank = 0, .local_size = 0};
    for (const Member& other : members_) member.local_rank += other.host == member.host;
    for (const Entry& other : all) member.local_size += member.host == other.host;
    members_.push_back(std::move(member));
  }
}

std::unique_ptr<Transfer> MpiGroup::start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) {
  auto transfer = std::make_unique<MpiTransfer>(Parts({}), Parts(counts));
  require<ShapeError>(std::ssize(counts) == size_ && transfer->received.total == std::ssize(all) &&
                          counts[static_cast<size_t>(rank_)] == std::ssize(mine),
                      "all_gather: the counts do not fit the buffers");
  call("MPI_Iallgatherv", MPI_Iallgatherv, mine.data(), count_of(std::ssize(mine)), MPI_BYTE, all.data(),
       transfer->received.counts.data(), transfer->received.offsets.data(), MPI_BYTE, communicator_,
       &transfer->requests[0]);
  return transfer;
}

std::unique_ptr<Transfer> MpiGroup::start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                                     std::span<const int64_t> received) {
  auto transfer = std::make_unique<MpiTransfer>(Parts(sent), Parts(received));
  require<ShapeError>(std::ssize(sent) == size_ && std::ssize(received) == size_ &&
                          transfer->sent.total == std::ssize(mine) && transfer->received.total == std::ssize(into),
                      "all_to_all: the counts do not fit the buffers");
  call("MPI_Ialltoallv", MPI_Ialltoallv, mine.data(), transfer->sent.counts.data(), transfer->sent.offsets.data(),
       MPI_BYTE, into.data(), transfer->received.counts.data(), transfer->received.offsets.data(), MPI_BYTE,
       communicator_, &transfer->requests[0]);
  return transfer;
}

std::unique_ptr<Transfer> MpiGroup::start_ring_shift(ConstBytes mine, Bytes into) {
  auto transfer = std::make_unique<MpiTransfer>();
  call("MPI_Irecv", MPI_Irecv, into.data(), count_of(std::ssize(into)), MPI_BYTE, (rank_ + size_ - 1) % size_, kRingTag,
       communicator_, &transfer->requests[0]);
  call("MPI_Isend", MPI_Isend, mine.data(), count_of(std::ssize(mine)), MPI_BYTE, (rank_ + 1) % size_, kRingTag,
       communicator_, &transfer->requests[1]);
  return transfer;
}

std::unique_ptr<Transfer> MpiGroup::start_sum(std::span<float> values) {
  auto transfer = std::make_unique<MpiTransfer>();
  call("MPI_Iallreduce", MPI_Iallreduce, MPI_IN_PLACE, values.data(), count_of(std::ssize(values)), MPI_FLOAT, MPI_SUM,
       communicator_, &transfer->requests[0]);
  return transfer;
}

void MpiGroup::barrier() {
  MpiTransfer transfer;
  call("MPI_Ibarrier", MPI_Ibarrier, communicator_, &transfer.requests[0]);
  wait_all(transfer.requests, Polling::relaxed);
}

/// MPI_Comm_split blocks, and so would other threads that wait for the mutex. So this is called before they exist, or
/// the other ranks' threads do not need an answer of this rank to get here.
std::unique_ptr<Group> MpiGroup::split(int color) {
  barrier();
  MPI_Comm part = MPI_COMM_NULL;
  call("MPI_Comm_split", MPI_Comm_split, communicator_, color, rank_, &part);
  return std::make_unique<MpiGroup>(part);
}

void MpiGroup::abort(int code, const std::string& reason) { end_job(reason.c_str(), code); }

}  // namespace attend::distributed::mpi
