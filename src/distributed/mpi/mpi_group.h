#pragma once

#include <mpi.h>

#include <limits>

#include "distributed/group.h"

namespace attend::distributed::mpi {

/// The members of a communicator.
class MpiGroup final : public Group {
 public:
  /// Takes ownership of the communicator. Collective: the members exchange their hosts.
  explicit MpiGroup(MPI_Comm communicator);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::vector<Member>& members() const override { return members_; }
  std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) override;
  std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                             std::span<const int64_t> received) override;
  std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) override;
  std::unique_ptr<Transfer> start_sum(std::span<float> values) override;
  void barrier() override;
  std::unique_ptr<Group> channel() override { return split(0); }
  std::unique_ptr<Group> split(int color) override;
  void abort(int code, const std::string& reason) override;

 private:
  void find_members();

  MPI_Comm communicator_;
  int rank_ = 0, size_ = 1;
  std::vector<Member> members_;
};

}  // namespace attend::distributed::mpi
