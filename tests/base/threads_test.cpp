#include "attend/base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "attend/base/error.h"

namespace attend {
namespace {

class Threads : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(before_); }
  int before_ = threads();
};

TEST_F(Threads, EveryTaskRunsOnce) {
  for (int count : {1, 2, 5}) {
    set_threads(count);
    for (int64_t tasks : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      parallel_for(tasks, [&](int64_t i) { runs[static_cast<size_t>(i)].fetch_add(1); });
      for (const auto& run : runs) ASSERT_EQ(run.load(), 1);
    }
  }
}

TEST_F(Threads, RangesCoverEverything) {
  set_threads(3);
  std::vector<int> touched(1001);
  parallel_ranges(1001, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
  });
  EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), 0), 1001);
}

TEST_F(Threads, ExceptionsReachTheCaller) {
  set_threads(2);
  EXPECT_THROW(parallel_for(100,
                            [](int64_t i) {
                              if (i == 42) throw std::runtime_error("42");
                            }),
               std::runtime_error);
  std::atomic<int> runs{0};
  parallel_for(100, [&](int64_t) { runs.fetch_add(1); });  // the pool still works afterwards
  EXPECT_EQ(runs.load(), 100);
}

TEST_F(Threads, IdleMemoryMayBeAnything) {
  set_threads(2);
  std::vector<char> real(1 << 20, 1);
  for (const void* begin : {static_cast<const void*>(real.data()), static_cast<const void*>(nullptr)}) {
    for (const int worker : {-1, 0, 1, 2, 7}) set_idle_memory(worker, begin, 1 << 20);
    std::atomic<int> runs{0};
    parallel_for(100, [&](int64_t) {
      set_idle_memory(1, begin, 1 << 20);  // nested: nothing happens
      runs.fetch_add(1);
    });
    EXPECT_EQ(runs.load(), 100);
  }
}

TEST_F(Threads, PlacesAreThoseOfTheThreads) {
  EXPECT_EQ(worker_place(), 0);
  set_threads(3);
  std::vector<std::atomic<int>> seen(3);
  for (int round = 0; round < 100; ++round) {
    parallel_for(64, [&](int64_t) { seen.at(static_cast<size_t>(worker_place())).fetch_add(1); });
  }
  EXPECT_EQ(seen[0] + seen[1] + seen[2], 6400);
  EXPECT_GT(seen[0].load(), 0);
}

TEST_F(Threads, NestedAndConcurrentCallsFinish) {
  set_threads(2);
  std::atomic<int> runs{0};
  const auto nested = [&] {
    parallel_for(10, [&](int64_t) { parallel_for(10, [&](int64_t) { runs.fetch_add(1); }); });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(nested);
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(runs.load(), 400);
}

TEST_F(Threads, CountIsChecked) {
  try {
    set_threads(0);
    ADD_FAILURE();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "set_threads: expected 1 to 1024 threads, got 0");
  }
}

}  // namespace
}  // namespace attend
