#include "distributed/shared_memory.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "distributed/cores.h"
#include "distributed/thread_group.h"

namespace attend::distributed {
namespace {

TEST(SharedMemory, EachMemberSeesAllAreas) {
  run_ranks(3, [](Group& group) {
    const auto memory = SharedMemory::open(group, 100 * (group.rank() + 1));
    ASSERT_NE(memory, nullptr);
    for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(memory->area(rank).size(), static_cast<size_t>(100 * (rank + 1)));
    for (int round = 0; round < 200; ++round) {
      // Each member writes into the next one's area.
      const auto value = static_cast<std::byte>(round % 100 + group.rank());
      memory->area((group.rank() + 1) % 3).back() = value;
      memory->barrier();
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(memory->area((rank + 1) % 3).back(), static_cast<std::byte>(round % 100 + rank)) << round;
      }
      memory->barrier();
    }
  });
}

/// A group whose members say that they live elsewhere.
class Elsewhere final : public Group {
 public:
  Elsewhere(Group& group, int64_t process, bool is_on_other_host) : group_(group), members_(group.members()) {
    members_.back().process = process;
    if (is_on_other_host) members_.back().host = "other";
  }
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  const std::vector<Member>& members() const override { return members_; }
  std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t> counts) override {
    return group_.start_all_gather(mine, all, counts);
  }
  std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                             std::span<const int64_t> received) override {
    return group_.start_all_to_all(mine, sent, into, received);
  }
  std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) override {
    return group_.start_ring_shift(mine, into);
  }
  std::unique_ptr<Transfer> start_sum(std::span<float> values) override { return group_.start_sum(values); }
  void barrier() override { group_.barrier(); }
  std::unique_ptr<Group> channel() override { return group_.channel(); }
  std::unique_ptr<Group> split(int color) override { return group_.split(color); }
  void abort(int code, const std::string& reason) override { group_.abort(code, reason); }

 private:
  Group& group_;
  std::vector<Member> members_;
};

TEST(SharedMemory, AllMembersDoWithoutItIfOneCannotReachAnother) {
  run_ranks(2, [](Group& group) {
    Elsewhere container(group, 1, false);  // another process has this number here
    EXPECT_EQ(SharedMemory::open(container, 64), nullptr);
    Elsewhere host(group, getpid(), true);
    EXPECT_EQ(SharedMemory::open(host, 64), nullptr);
    EXPECT_EQ(SharedMemory::open(group, int64_t{1} << 60), nullptr) << "more than can be addressed";
    const auto memory = SharedMemory::open(group, 64);
    EXPECT_NE(memory, nullptr);
    if (memory) memory->barrier();
  });
}

TEST(SharedMemory, AMemberThatHangsIsNoticed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the variable is read once
  EXPECT_EXIT(
      {
        setenv("ATTEND_PATIENCE", "0.5", 1);
        run_ranks(2, [](Group& group) {
          const auto memory = SharedMemory::open(group, 64);
          if (group.rank() == 1) return;
          try {
            memory->barrier();
          } catch (const Error& error) {
            std::fprintf(stderr, "%s\n", error.what());
            std::_Exit(3);
          }
        });
      },
      ::testing::ExitedWithCode(3), "waited for the others for too long");
}

int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

TEST(Cores, AProcessKeepsToItsShare) {
  std::thread([] {
    const int all = usable_cores();
    if (all < 2) GTEST_SKIP() << "one core";
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    EXPECT_FALSE(keep_to_cores(0, 2, 1)) << "mpirun --bind-to none";
    unsetenv("OMPI_MCA_hwloc_base_binding_policy");
    EXPECT_FALSE(keep_to_cores(0, 2, all)) << "more threads than cores";
    EXPECT_EQ(usable_cores(), all);
    if (all >= 4) {
      EXPECT_FALSE(keep_to_cores(0, 2, all / 4)) << "half of the cores are enough";
    }
    const int own = all / 2;
    if (!keep_to_cores(1, 2, own)) GTEST_SKIP() << "the tests may not use all cores of this machine";
    EXPECT_EQ(usable_cores(), own);
    std::thread([own] { EXPECT_EQ(usable_cores(), own); }).join();
    EXPECT_FALSE(keep_to_cores(1, 2, own)) << "its cores are chosen";
    leave_cores();
    EXPECT_EQ(usable_cores(), all);
  }).join();
}

}  // namespace
}  // namespace attend::distributed
