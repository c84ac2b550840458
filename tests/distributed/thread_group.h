#pragma once

#include <unistd.h>

#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "distributed/group.h"

// Threads that stand for processes, so that tests of collective code need no launcher.
namespace attend::distributed {

class ThreadGroup final : public Group {
 public:
  struct Shared {
    explicit Shared(int count) : size(count), meeting(count), slots(static_cast<size_t>(count)) {}
    int size;
    std::barrier<> meeting;
    struct Slot {
      ConstBytes bytes;
      std::vector<int64_t> counts;
      std::span<float> floats;
      int color = 0;
      std::vector<std::shared_ptr<Shared>> parts;
    };
    std::vector<Slot> slots;
    std::vector<std::shared_ptr<Shared>> made;
  };

  ThreadGroup(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {
    for (int i = 0; i < shared_->size; ++i) {
      members_.push_back({.host = "thread", .process = getpid(), .local_rank = i, .local_size = shared_->size});
    }
  }
  int rank() const override { return rank_; }
  int size() const override { return shared_->size; }
  const std::vector<Member>& members() const override { return members_; }

  std::unique_ptr<Transfer> start_all_gather(ConstBytes mine, Bytes all, std::span<const int64_t>) override {
    slot().bytes = mine;
    return met([&] {
      size_t at = 0;
      for (const auto& other : shared_->slots) {
        std::memcpy(all.data() + at, other.bytes.data(), other.bytes.size());
        at += other.bytes.size();
      }
    });
  }
  std::unique_ptr<Transfer> start_all_to_all(ConstBytes mine, std::span<const int64_t> sent, Bytes into,
                                             std::span<const int64_t> received) override {
    slot().bytes = mine;
    slot().counts.assign(sent.begin(), sent.end());
    return met([&] {
      size_t at = 0;
      for (size_t from = 0; from < shared_->slots.size(); ++from) {
        const auto& other = shared_->slots[from];
        int64_t offset = 0;
        for (int rank = 0; rank < rank_; ++rank) offset += other.counts[static_cast<size_t>(rank)];
        const auto count = static_cast<size_t>(received[from]);
        if (count > 0) std::memcpy(into.data() + at, other.bytes.data() + offset, count);
        at += count;
      }
    });
  }
  std::unique_ptr<Transfer> start_ring_shift(ConstBytes mine, Bytes into) override {
    slot().bytes = mine;
    return met([&] {
      const ConstBytes from = shared_->slots[static_cast<size_t>((rank_ + size() - 1) % size())].bytes;
      std::memcpy(into.data(), from.data(), into.size());
    });
  }
  std::unique_ptr<Transfer> start_sum(std::span<float> values) override {
    slot().floats = values;
    std::vector<float> sum(values.size(), 0.0f);
    auto done = met([&] {
      for (const auto& other : shared_->slots) {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += other.floats[i];
      }
    });
    std::ranges::copy(sum, values.begin());
    return done;
  }
  void barrier() override { shared_->meeting.arrive_and_wait(); }
  std::unique_ptr<Group> channel() override { return split(0); }
  std::unique_ptr<Group> split(int color) override {
    slot().color = color;
    barrier();
    int count = 0, place = 0, first = -1;
    for (int i = 0; i < size(); ++i) {
      if (shared_->slots[static_cast<size_t>(i)].color != color) continue;
      if (first < 0) first = i;
      if (i < rank_) ++place;
      ++count;
    }
    if (rank_ == first) slot().parts = {std::make_shared<Shared>(count)};
    barrier();
    auto part = shared_->slots[static_cast<size_t>(first)].parts[0];
    barrier();
    return std::make_unique<ThreadGroup>(part, place);
  }
  void abort(int, const std::string&) override { std::terminate(); }

 private:
  struct Done final : Transfer {
    void wait() override {}
  };
  Shared::Slot& slot() { return shared_->slots[static_cast<size_t>(rank_)]; }
  template <class Work>
  std::unique_ptr<Transfer> met(Work&& work) {
    barrier();
    work();
    barrier();
    return std::make_unique<Done>();
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  std::vector<Member> members_;
};

/// Runs work(group) on `count` threads, one for each rank, each with its group as world(). Rethrows an exception of the
/// lowest rank that threw; a rank that throws must not leave others waiting.
inline void run_ranks(int count, const std::function<void(Group&)>& work) {
  const auto shared = std::make_shared<ThreadGroup::Shared>(count);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadGroup group(shared, rank);
      const WorldScope scope(group);
      try {
        work(group);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace attend::distributed
